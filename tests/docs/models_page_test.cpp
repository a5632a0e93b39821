// Runs the commands of docs/models.md on a tiny model.
#include <filesystem>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/core/tokenizer/small_gpt2.hpp"

namespace {

namespace fs = std::filesystem;

/// The arguments of the lines of a page that are in blocks of "sh", without "lockstep".
std::vector<std::vector<std::string>> commands_of(const std::string& page) {
  std::istringstream text(page);
  std::vector<std::vector<std::string>> commands;
  bool shell = false;
  for (std::string line; std::getline(text, line);) {
    if (line.starts_with("```")) shell = line == "```sh";
    if (!shell || !line.starts_with("lockstep ")) continue;
    std::vector<std::string> words;
    bool quoted = false, begun = false;
    for (const char c : line.substr(9)) {
      if (c == '"') {
        quoted = !quoted;
      } else if (c == ' ' && !quoted) {
        begun = false;
      } else {
        if (!begun) words.emplace_back();
        begun = true;
        words.back() += c;
      }
    }
    commands.push_back(words);
  }
  return commands;
}

struct WorkingFolder {
  explicit WorkingFolder(const fs::path& folder) : before(fs::current_path()) {
    fs::current_path(folder);
  }
  ~WorkingFolder() { fs::current_path(before); }
  WorkingFolder(const WorkingFolder&) = delete;
  WorkingFolder& operator=(const WorkingFolder&) = delete;
  fs::path before;
};

}  // namespace

TEST_CASE("the commands of docs/models.md do what the page says", "[docs]") {
  using lockstep::test::small_gpt2;
  const TemporaryFolder folder;
  const WorkingFolder here(folder.path);
  std::string novel;
  for (int i = 0; i < 300; ++i) novel += "It was the other day, and it was raining.\n";
  write_bytes("novel.txt", novel);
  write_bytes("tiny.toml", lockstep::test::kTiny);
  const auto made = lockstep::test::lockstep({"run", "tiny.toml", "--backend", "cpu", "--out",
                                              "tiny", "--set", "model.vocab=260", "--quiet"});
  INFO(made.err);
  REQUIRE(made.exit_code == 0);
  REQUIRE(lockstep::test::lockstep({"export", "hf", "tiny", "--out", "gpt2"}).exit_code == 0);
  write_bytes("gpt2/tokenizer.json", small_gpt2({"t h", "a s", "e r"}));

  const auto commands = commands_of(read_bytes(LOCKSTEP_SOURCE_DIR "/docs/models.md"));
  REQUIRE(commands.size() == 6);
  for (const auto& command : commands) {
    const auto outcome = lockstep::test::lockstep(command);
    INFO(command.front() << ": " << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    if (command.front() == "sample") CHECK(outcome.out.starts_with("It was"));
  }
  CHECK(fs::exists("data/novel-validation.bin"));
  CHECK(fs::exists("runs/novel/checkpoints/step-100"));
  CHECK(fs::exists("novel-hf/model.safetensors"));
}
