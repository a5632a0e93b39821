// Runs every command of every page, and compares outputs and figures with what is printed.
// scripts/docs-figures (LOCKSTEP_UPDATE_DOCS=1) writes them into the pages instead.
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>

#include "tests/catch.hpp"
#include "tests/docs/page.hpp"
#include "tests/docs/working_folder.hpp"
#include "tests/temporary_folder.hpp"

using namespace lockstep::test;

namespace {

namespace fs = std::filesystem;
const fs::path kRoot = LOCKSTEP_SOURCE_DIR;

std::vector<fs::path> pages() {
  std::vector<fs::path> found = {kRoot / "README.md", kRoot / "CONTRIBUTING.md"};
  for (const char* folder : {"docs", "scenarios/course"}) {
    for (const auto& entry : fs::recursive_directory_iterator(kRoot / folder)) {
      if (entry.path().extension() == ".md") found.push_back(entry.path());
    }
  }
  std::sort(found.begin(), found.end());
  return found;
}

/// The working folder becomes the repository as its pages see it: scenarios are copied, because
/// what they name lies beside them, and so are the files of tests/docs/files.
void make_repository() {
  for (const auto& entry : fs::directory_iterator(kRoot)) {
    const std::string name = entry.path().filename().string();
    if (name == "build" || name == "runs" || name == "scenarios" || name == "data") continue;
    fs::create_symlink(entry.path(), name);
  }
  fs::copy(kRoot / "scenarios", "scenarios", fs::copy_options::recursive);
  fs::copy(kRoot / "tests/docs/files", ".", fs::copy_options::recursive);
  std::ofstream novel("novel.txt");
  for (int i = 0; i < 3000; ++i) novel << "It was the other day, and it was raining.\n";
}

/// The first line in which two texts differ, as both have it.
std::string difference(const std::string& before, const std::string& now) {
  std::istringstream a(before), b(now);
  std::string line_a, line_b;
  for (int number = 1;; ++number) {
    const bool more_a = bool(std::getline(a, line_a)), more_b = bool(std::getline(b, line_b));
    if (!more_a && !more_b) return "";
    if (line_a != line_b || more_a != more_b) {
      return std::to_string(number) + ": it says\n" + line_a + "\nand should say\n" + line_b;
    }
  }
}

/// Calls `look` with the name of every page, or of LOCKSTEP_DOCS_PAGE alone, in a folder that looks
/// like the repository.
void on_every_page(const std::function<void(const std::string& name)>& look) {
  const char* only = std::getenv("LOCKSTEP_DOCS_PAGE");
  for (const fs::path& path : pages()) {
    const std::string name = fs::relative(path, kRoot).string();
    if (only != nullptr && name != only) continue;
    const TemporaryFolder folder;
    const WorkingFolder here(folder.path);
    make_repository();
    look(name);
  }
}

}  // namespace

TEST_CASE("every command of the documentation runs", "[docs]") {
  const bool update = std::getenv("LOCKSTEP_UPDATE_DOCS") != nullptr;
  std::size_t commands = 0;
  on_every_page([&](const std::string& name) {
    const std::string path = (kRoot / name).string();
    const std::string text = read_bytes(path);
    const RenderedPage page = render(name, text);
    commands += page.commands.size();
    for (const std::string& fault : page.faults) {
      UNSCOPED_INFO(fault);
      CHECK(fault.empty());
    }
    if (update) {
      for (const std::string& command : page.commands) {
        std::cout << name << ": " << command << "\n";
      }
      if (page.text != text) write_bytes(path, page.text);
      return;
    }
    INFO(name << ":" << difference(text, page.text) << "\n(scripts/docs-figures writes it)");
    CHECK((page.text == text));
  });
  CHECK((std::getenv("LOCKSTEP_DOCS_PAGE") != nullptr || commands > 80));
}

TEST_CASE("no command of the documentation prints tables wider than a terminal of 80", "[docs]") {
  constexpr int kNarrow = 80;
  const bool list = std::getenv("LOCKSTEP_UPDATE_DOCS") != nullptr;
  on_every_page([&](const std::string& name) {
    const RenderedPage page = render(name, read_bytes((kRoot / name).string()), kNarrow);
    CHECK(page.wide == std::vector<std::string>{});
    for (const std::string& command : page.commands) {
      if (list) std::cout << name << ": " << command << "\n";
    }
  });
}

TEST_CASE("a page with a wrong exit code, figure or output is found", "[docs]") {
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path);
  make_repository();
  const RenderedPage page = render("a.md",
                                   "```toml p.toml\n[model]\npreset = \"synthetic\"\n[costs]\n"
                                   "forward = 1\nbackward_input = 1\nbackward_weight = 1\n```\n"
                                   "```sh\nlockstep run p.toml\nlockstep run q.toml\n"
                                   "lockstep run q.toml  # exit code 2\n```\n"
                                   "<!--of run p.toml-->\n"
                                   "A step takes 8,123.0 s<!--=step_time_s-->, with twice the work "
                                   "1.0<!--=x step_time_s; costs.forward=2--> times as long, "
                                   "+0 %<!--=+ step_time_s; costs.forward=2-->.\n"
                                   "| <!--with costs.forward=4--> 1 |\n"
                                   "No figure<!--=step_time_s-->, 5 s<!--=step_tim-->\n"
                                   "```sh needs=gpu\nlockstep run p.toml --backed cuda\n"
                                   "scripts/no-such\n```\n"
                                   "```\nlockstep run p.toml\n```\n"
                                   "<!--run-->\n| a | b |\n| c | `lockstep lists` |\n\n"
                                   "```sh\nlockstep list models\n```\n```output 1\nold\n```\n");
  REQUIRE(page.faults.size() == 8);
  CHECK_THAT(page.faults[0], ContainsSubstring("exit code 2 of: lockstep run q.toml"));
  CHECK_THAT(page.faults[1], ContainsSubstring("no figure stands before"));
  CHECK_THAT(page.faults[2], ContainsSubstring("no 'step_tim'"));
  CHECK_THAT(page.faults[3], ContainsSubstring("lockstep run has no --backed"));
  CHECK_THAT(page.faults[4], ContainsSubstring("there is no scripts/no-such"));
  CHECK_THAT(page.faults[5], ContainsSubstring("without a language"));
  CHECK_THAT(page.faults[6], ContainsSubstring("outside of a block of sh"));
  CHECK_THAT(page.faults[7], ContainsSubstring("exit code 2 of: lockstep lists"));
  CHECK_THAT(page.text,
             ContainsSubstring("takes 3.0 s<!--=step_time_s-->, with twice the work 1.3<"));
  CHECK_THAT(page.text, ContainsSubstring("+33 %<!--"));
  CHECK_THAT(page.text, !ContainsSubstring("old"));
  CHECK_THAT(page.text, ContainsSubstring("gpt2-124m"));
}

TEST_CASE("paragraphs of an output are chosen, with a sign for those that are left out", "[docs]") {
  const std::string output = "a\nb\n\nc\n\nd\n";
  CHECK(select_paragraphs(output, "") == output);
  CHECK(select_paragraphs(output, "1") == "a\nb\n…\n");
  CHECK(select_paragraphs(output, "1,3") == "a\nb\n\n…\n\nd\n");
  CHECK(select_paragraphs(output, "2-3") == "…\n\nc\n\nd\n");
}

TEST_CASE("a figure keeps its style when its value changes", "[docs]") {
  const auto restyled = [](const std::string& text, double value) {
    return in_style_of(figure_at_end(text), value);
  };
  CHECK(restyled("takes 41.5 s", 0.25) == "0.2 s");
  CHECK(restyled("takes 898 ms", 1.2345) == "1,234 ms");
  CHECK(restyled("1915.4 ms", 2.0) == "2000.0 ms");
  CHECK(restyled("about 50,281", 1234567) == "1,234,567");
  CHECK(restyled("+8.3 %", -0.052) == "−5.2 %");
  CHECK(restyled("−5.2 %", 0.083) == "+8.3 %");
  CHECK(restyled("| 22.9 GiB", 1073741824.0) == "1.0 GiB");
  CHECK(figure_at_end("no number").digits.empty());
}
