// Runs the commands of docs/how-to.md.
#include <filesystem>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/docs/page_commands.hpp"

TEST_CASE("the commands of docs/how-to.md answer their questions", "[docs]") {
  namespace fs = std::filesystem;
  const TemporaryFolder folder;
  const lockstep::test::WorkingFolder here(folder.path);
  const fs::path root = LOCKSTEP_SOURCE_DIR;
  fs::copy(root / "scenarios", "scenarios", fs::copy_options::recursive);
  fs::create_directory("tests");
  fs::create_directory_symlink(root / "tests/data", "tests/data");
  std::string novel;
  for (int i = 0; i < 3000; ++i) novel += "It was the other day, and it was raining.\n";
  write_bytes("novel.txt", novel);
  write_bytes("config.json", R"({"model_type": "llama", "hidden_size": 2048, "vocab_size": 32000,
    "intermediate_size": 5632, "num_hidden_layers": 22, "num_attention_heads": 32,
    "num_key_value_heads": 4, "max_position_embeddings": 2048, "rms_norm_eps": 1e-05})");
  const std::string page = read_bytes((root / "docs/how-to.md").string());
  for (const char* name : {"70b", "pipeline"}) {
    std::string scenario;
    for (const std::string& line :
         lockstep::test::lines_in_blocks(page, std::string("toml ") + name)) {
      scenario += line + "\n";
    }
    write_bytes(std::string(name) + ".toml", scenario);
  }

  const auto commands = lockstep::test::commands_of(page);
  REQUIRE(commands.size() == 31);
  for (const auto& command : commands) {
    const auto outcome = lockstep::test::lockstep(command);
    INFO(command.front() << " " << command[1] << ": " << outcome.err);
    REQUIRE(outcome.exit_code == 0);
    if (command.front() == "sample") CHECK(outcome.out.starts_with("It was"));
  }
  CHECK(fs::exists("70b-megatron.txt"));
  CHECK(fs::exists("runs/mine/checkpoints/step-40"));
  CHECK(fs::exists("runs/merged/checkpoints/step-0"));
}
