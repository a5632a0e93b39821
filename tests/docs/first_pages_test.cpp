// Tests of the pages that a newcomer reads first: their errors are what the program says, their
// pictures are the simulator's, and the index has every page. pages_test.cpp runs their commands.
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "core/schedule/schedules.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/docs/page.hpp"
#include "tests/docs/working_folder.hpp"

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = LOCKSTEP_SOURCE_DIR;

std::string page(const std::string& name) { return read_bytes((kRoot / "docs" / name).string()); }

TEST_CASE("every error of docs/troubleshooting.md is what the program says of its file", "[docs]") {
  const TemporaryFolder folder;
  const lockstep::test::WorkingFolder here(folder.path);
  std::istringstream text(page("troubleshooting.md"));
  std::string scenario, line;
  bool inside = false;
  int tried = 0;
  while (std::getline(text, line)) {
    if (line.starts_with("```")) {
      inside = line == "```toml";
      if (inside) scenario.clear();
    } else if (inside) {
      scenario += line + "\n";
    } else if (line.starts_with("*says* `")) {
      const std::string words = line.substr(8, line.find('`', 8) - 8);
      write_bytes("troubleshooting.toml", scenario);
      const auto said = lockstep::test::lockstep({"run", "troubleshooting.toml", "--backend",
                                                  words.starts_with("tokens") ? "cpu" : "sim"});
      INFO(scenario << said.err);
      CHECK_THAT(said.err, ContainsSubstring(words));
      CHECK(said.exit_code == (words == "too little" ? 3 : 2));
      ++tried;
    }
  }
  CHECK(tried == 9);
}

TEST_CASE("docs/troubleshooting.md has the exit codes of the manual page", "[docs]") {
  const std::string manual = lockstep::test::lockstep({"man"}).out;
  const std::string text = page("troubleshooting.md");
  const std::regex row(R"(\n\| (\d+) \| ([^|]+) \|)");
  std::set<std::string> codes;
  for (std::sregex_iterator i(text.begin(), text.end(), row), end; i != end; ++i) {
    const std::string meaning = std::regex_replace(std::string((*i)[2]), std::regex("-"), "\\-");
    INFO(meaning);
    CHECK_THAT(manual, ContainsSubstring(".B " + std::string((*i)[1]) + "\n" + meaning + "\n"));
    codes.insert((*i)[1]);
  }
  const std::string statuses =
      manual.substr(manual.find(".SH EXIT STATUS"),
                    manual.find(".SH ENVIRONMENT") - manual.find(".SH EXIT STATUS"));
  const std::regex status(R"(\.B (\d+)\n)");
  CHECK(std::distance(std::sregex_iterator(statuses.begin(), statuses.end(), status),
                      std::sregex_iterator()) == std::ptrdiff_t(codes.size()));
}

TEST_CASE("every schedule has a page, with the figures that the simulator says", "[docs]") {
  const TemporaryFolder folder;
  const lockstep::test::WorkingFolder here(kRoot);
  const std::string index = page("schedules/README.md");
  for (const auto& rules : lockstep::kSchedules) {
    std::string name(rules.name);
    std::transform(name.begin(), name.end(), name.begin(),
                   [](unsigned char c) { return std::tolower(c); });
    INFO(name);
    CHECK_THAT(index, ContainsSubstring("(" + name + ".md)"));
    const std::string text = page("schedules/" + name + ".md");
    const std::size_t at = text.find("\nlockstep run ") + 10;
    auto command = lockstep::test::words_of(text.substr(at, text.find('\n', at) - at));
    const std::string picture = folder / "picture.svg";
    command.insert(command.end(), {"--json", "--picture", picture});
    const auto ran = lockstep::test::lockstep(command);
    CHECK(ran.exit_code == 0);
    const auto report = nlohmann::json::parse(ran.out);
    std::ostringstream step, bubble;
    step << "| step | " << report["step_time_s"].get<double>() << " s |";
    bubble.precision(1);
    bubble << "| bubble | " << std::fixed << 100 * report["bubble_fraction"].get<double>()
           << " % |";
    CHECK_THAT(text, ContainsSubstring(step.str()));
    CHECK_THAT(text, ContainsSubstring(bubble.str()));
    CHECK(read_bytes(picture) == page("images/schedules/" + name + ".svg"));
  }
}

TEST_CASE("docs/README.md leads to every page", "[docs]") {
  const std::string index = page("README.md");
  for (const auto& entry : fs::directory_iterator(kRoot / "docs")) {
    const std::string name = entry.path().filename().string();
    if (entry.path().extension() != ".md" || name == "README.md") continue;
    CHECK_THAT(index, ContainsSubstring("(" + name + ")"));
  }
}

}  // namespace
