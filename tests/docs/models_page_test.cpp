// Runs the commands of docs/models.md on a tiny model.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/core/tokenizer/small_gpt2.hpp"
#include "tests/docs/page_commands.hpp"

TEST_CASE("the commands of docs/models.md do what the page says", "[docs]") {
  namespace fs = std::filesystem;
  using lockstep::test::small_gpt2;
  const TemporaryFolder folder;
  const lockstep::test::WorkingFolder here(folder.path);
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

  const auto commands =
      lockstep::test::commands_of(read_bytes(LOCKSTEP_SOURCE_DIR "/docs/models.md"));
  REQUIRE(commands.size() == 6);
  for (const auto& command : commands) {
    const auto outcome = lockstep::test::lockstep(command);
    INFO(command.front() << ": " << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    if (command.front() == "sample") CHECK(outcome.out.starts_with("It was"));
    if (command.front() == "run") CHECK(outcome.out.find("validation loss") != std::string::npos);
  }
  CHECK(fs::exists("data/novel-validation.bin"));
  CHECK(fs::exists("runs/novel/checkpoints/step-100"));
  CHECK(fs::exists("novel-hf/model.safetensors"));
}
