#include <nlohmann/json.hpp>
#include <sstream>

#include "cli/cli.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

using test::CommandOutcome;
using test::lockstep;

TEST_CASE("recommend names every rule with its answer", "[cli]") {
  const CommandOutcome o = lockstep({"recommend", "--params", "70B", "--gpu-mem", "64", "--gpus",
                                     "8", "--interconnect", "nvlink"});
  REQUIRE(o.exit_code == 0);
  for (const char* text : {"decision function", "TP inside the node + FSDP across replicas",
                           "flow chart", "by size and GPUs", "by size and memory"}) {
    CHECK_THAT(o.out, ContainsSubstring(text));
  }
}

TEST_CASE("recommend sets the simulated answer beside the rules", "[cli]") {
  const CommandOutcome o = lockstep({"recommend", "--params", "1.3B", "--gpu-mem", "80", "--gpus",
                                     "2", "--interconnect", "pcie"});
  REQUIRE(o.exit_code == 0);
  for (const char* text : {"simulated answer", "at best ", "tokens/s"}) {
    CHECK_THAT(o.out, ContainsSubstring(text));
  }
  // 18 bytes of state for each of 7 B parameters do not fit 24 GB, over eight GPUs they do.
  const auto answer = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "recommend");
    arguments.push_back("--json");
    const CommandOutcome json = lockstep(arguments);
    REQUIRE(json.exit_code == 0);
    return nlohmann::json::parse(json.out);
  };
  const auto tight = answer({"--params", "7B", "--gpu-mem", "24", "--gpus", "8"});
  REQUIRE(!tight["answer"].is_null());
  // Of published runs, nine in ten allocate up to 8 % more than is simulated.
  CHECK(tight["answer"]["needed_memory_bytes"].get<double>() <= 24e9 / 1.08);
  CHECK(tight["stopped"] == false);
  CHECK(tight["answer"]["layout"].get<std::string>().find("DDP") == std::string::npos);
  // 70 B are 1,260 GB of states: eight GPUs never.
  const auto large = answer({"--params", "70B", "--gpu-mem", "64", "--gpus", "8"});
  CHECK(large["answer"].is_null());
  CHECK(large["failure"].get<std::string>().find("none of") == 0);
}

TEST_CASE("where nothing fits, recommend names options with which its answer would fit", "[cli]") {
  // 18 bytes for each of 1.3 B parameters are 23.4 GB: twice 8 GB are too little. Four times leave
  // too little for NCCL's buffers and the driver's context; eight times are enough.
  const std::vector<std::string> question = {"recommend", "--params", "1.3B", "--gpu-mem",
                                             "8",         "--gpus",   "2",    "--seq-len",
                                             "1024",      "--batch",  "8",    "--json"};
  const CommandOutcome o = lockstep(question);
  REQUIRE(o.exit_code == 0);
  const auto json = nlohmann::json::parse(o.out);
  REQUIRE(json["answer"].is_null());
  std::vector<std::string> options;
  for (const auto& way : json["would_fit"]) options.push_back(way["option"]);
  CHECK(options == std::vector<std::string>{"--offload", "--lora 16", "--gpus 8"});
  for (const auto& way : json["would_fit"]) {
    INFO(way.dump());
    const double needed = way["needed_memory_bytes"];
    CHECK(needed <= 8e9 / 1.08);
    // The same command with the option has an answer, which is at least as fast.
    std::vector<std::string> asked = question;
    std::istringstream words(way["option"].get<std::string>());
    for (std::string word; words >> word;) asked.push_back(word);
    if (way["option"] == "--gpus 8") asked.erase(asked.begin() + 5, asked.begin() + 7);
    const CommandOutcome then = lockstep(asked);
    REQUIRE(then.exit_code == 0);
    const auto answer = nlohmann::json::parse(then.out)["answer"];
    REQUIRE(!answer.is_null());
    CHECK(answer["step_time_s"].get<double>() <= way["step_time_s"].get<double>());
  }
  const CommandOutcome text = lockstep({question.begin(), question.end() - 1});
  CHECK_THAT(text.out, ContainsSubstring("what would fit") &&
                           ContainsSubstring("8 GPUs instead of 2 (--gpus 8)"));
  // What fits needs no way.
  const CommandOutcome fits =
      lockstep({"recommend", "--params", "1.3B", "--gpu-mem", "80", "--gpus", "2", "--json"});
  CHECK(!nlohmann::json::parse(fits.out).contains("would_fit"));
  const CommandOutcome vision =
      lockstep({"recommend", "--model", "vit-tiny", "--cluster", "v100", "--lora", "4"});
  CHECK(vision.exit_code == 2);
  CHECK_THAT(vision.err, ContainsSubstring("adapters are built for"));
}

TEST_CASE("recommend takes a model and a cluster by name, and its answer is the search's",
          "[cli]") {
  const CommandOutcome o = lockstep({"recommend", "--model", "gpt2-124m", "--cluster", "a100-80",
                                     "--seq-len", "1024", "--batch", "64", "--json"});
  INFO(o.err);
  REQUIRE(o.exit_code == 0);
  const auto json = nlohmann::json::parse(o.out);
  REQUIRE(!json["answer"].is_null());
  CHECK(json["gpus"] == 8);
  // The scenario that it answers with runs, and does what was said of it.
  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", json["answer"]["scenario"].get<std::string>());
  const CommandOutcome run = lockstep({"run", folder / "s.toml", "--json"});
  REQUIRE(run.exit_code == 0);
  CHECK(nlohmann::json::parse(run.out)["step_time_s"] == json["answer"]["step_time_s"]);
  for (const auto& rule : json["rules"]) {
    if (rule["simulated"].is_null()) continue;
    CHECK(rule["slower"].get<double>() >= 0);  // nothing that was simulated is faster
  }
  const CommandOutcome misspelt =
      lockstep({"recommend", "--model", "llama3-70", "--cluster", "h100"});
  CHECK(misspelt.exit_code == 2);
  CHECK_THAT(misspelt.err, ContainsSubstring("llama3-70b"));
  CHECK(lockstep({"recommend", "--model", "llama3-70b"}).exit_code == 2);
  CHECK(lockstep({"recommend"}).exit_code == 2);
}

TEST_CASE("a card without bfloat16 gets float16, and images come as many as tokens would",
          "[cli]") {
  const auto answer = [](const char* model, const char* cluster) {
    const CommandOutcome o =
        lockstep({"recommend", "--model", model, "--cluster", cluster, "--json"});
    INFO(o.err);
    REQUIRE(o.exit_code == 0);
    return nlohmann::json::parse(o.out);
  };
  const auto old = answer("vit-tiny", "v100");
  CHECK_THAT(old["answer"]["scenario"].get<std::string>(),
             ContainsSubstring("mixed_precision_param = \"float16\""));
  const auto images = answer("vit-b-16", "a100-80");  // 196 patches each
  CHECK_THAT(images["task"].get<std::string>(), ContainsSubstring("512 images a step"));
}

TEST_CASE("recommend asks how long sequences are where a config.json does not say it", "[cli]") {
  const TemporaryFolder folder;
  const std::string config = folder / "config.json";
  write_bytes(config, R"({"model_type": "llama", "hidden_size": 1024, "intermediate_size": 2816,
      "num_attention_heads": 8, "num_key_value_heads": 8, "num_hidden_layers": 8,
      "vocab_size": 32000, "rms_norm_eps": 1e-5, "tie_word_embeddings": false})");
  const std::vector<std::string> question = {"recommend", "--model", config, "--cluster", "h100"};
  const CommandOutcome unsaid = lockstep(question);
  CHECK(unsaid.exit_code == 2);
  CHECK_THAT(unsaid.err,
             ContainsSubstring("max_position_embeddings") && ContainsSubstring("give --seq-len"));
  std::vector<std::string> whole = question;
  whole.insert(whole.end(), {"--seq-len", "2048"});
  const CommandOutcome said = lockstep(whole);
  CHECK(said.exit_code == 0);
  CHECK_THAT(said.out, ContainsSubstring("sequences of 2048 tokens"));
}

TEST_CASE("recommend and search say what of a model they do not simulate", "[cli]") {
  const TemporaryFolder folder;
  const std::string config = folder / "config.json";
  write_bytes(config, R"({"model_type": "olmo", "hidden_size": 256, "intermediate_size": 512,
      "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 64, "num_hidden_layers": 2,
      "vocab_size": 1000, "max_position_embeddings": 512, "swish_gain": 2})");
  const CommandOutcome o = lockstep({"recommend", "--model", config, "--cluster", "h100"});
  CHECK(o.exit_code == 0);
  CHECK_THAT(o.err,
             ContainsSubstring("'swish_gain' is not used") && ContainsSubstring("not trained"));
  const std::string file = folder / "s.toml";
  write_bytes(file,
              "[model]\nhf_config = \"" + config +
                  "\"\n[training]\nseq_len = 512\nglobal_batch_size = 16\n[cluster]\npreset = "
                  "\"h100\"\n");
  const CommandOutcome found = lockstep({"search", file});
  CHECK(found.exit_code == 0);
  CHECK_THAT(found.err, ContainsSubstring("'swish_gain' is not used"));
}

TEST_CASE("recommend is the search that search is, settings included, in text and JSON", "[cli]") {
  const std::vector<std::string> question = {"recommend", "--params", "7B", "--gpu-mem",
                                             "26",        "--gpus",   "8",  "--framework",
                                             "lockstep",  "--json"};
  const CommandOutcome o = lockstep(question);
  REQUIRE(o.exit_code == 0);
  const auto answer = nlohmann::json::parse(o.out)["answer"];
  // Not all blocks need to be recomputed: how many is the search's last choice.
  const std::string layout = answer["layout"];
  CHECK_THAT(layout, ContainsSubstring("FSDP") && ContainsSubstring("recomputation in 32 of 34"));
  const CommandOutcome text = lockstep({question.begin(), question.end() - 1});
  REQUIRE(text.exit_code == 0);
  CHECK_THAT(text.out, ContainsSubstring(layout));

  const TemporaryFolder folder;
  write_bytes(folder / "s.toml", answer["scenario"].get<std::string>());
  const CommandOutcome search =
      lockstep({"search", folder / "s.toml", "--json", "--set", "parallelism.fsdp_prefetch=1",
                "--max-memory", "24.074074074"});  // 26 GB less what runs may take more
  INFO(search.err);
  REQUIRE(search.exit_code == 0);
  const auto found = nlohmann::json::parse(search.out);
  CHECK(found["counts"]["settings_simulated"].get<int>() > 0);
  for (const char* key : {"layout", "step_time_s", "needed_memory_bytes", "scenario"}) {
    CHECK(found["found"][0][key] == answer[key]);
  }
}

}  // namespace
}  // namespace lockstep
