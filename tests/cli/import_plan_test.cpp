#include <nlohmann/json.hpp>

#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep::test {
namespace {

const std::string kDeepSpeed = R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
  "gradient_accumulation_steps": 4, "bf16": {"enabled": true}, "zero_optimization": {"stage": 2},
  "wandb": {"team": "x"}, "sparse_attention": {"mode": "fixed"}})";

TEST_CASE("an imported plan runs, and every setting of the file is accounted for", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "ds.json", kDeepSpeed);
  const std::string scenario = folder / "scenario.toml";
  const auto imported = lockstep({"import", "deepspeed", folder / "ds.json", "--model", "gpt2-124m",
                                  "--seq-len", "512", "--out", scenario});
  INFO(imported.err);
  REQUIRE(imported.exit_code == 0);
  CHECK(imported.out.empty());
  CHECK_THAT(imported.err, ContainsSubstring("note: taken: zero_optimization.stage = 2"));
  CHECK_THAT(imported.err, ContainsSubstring("note: without effect on a plan: wandb.team"));
  CHECK_THAT(imported.err, ContainsSubstring("note: unknown: sparse_attention.mode"));
  const auto ran = lockstep({"run", scenario, "--json"});
  INFO(ran.err);
  REQUIRE(ran.exit_code == 0);
  CHECK(nlohmann::json::parse(ran.out)["world_size"] == 8);

  const auto json = lockstep({"import", "deepspeed", folder / "ds.json", "--model", "gpt2-124m",
                              "--seq-len", "512", "--json"});
  CHECK(nlohmann::json::parse(json.out)["scenario"] == read_bytes(scenario));
  CHECK(nlohmann::json::parse(json.out)["unknown"].size() == 1);
  CHECK_THAT(imported.err, ContainsSubstring("note: parameters: "));
  const auto strict = lockstep({"import", "deepspeed", folder / "ds.json", "--model", "gpt2-124m",
                                "--seq-len", "512", "--strict"});
  CHECK(strict.exit_code == 2);
  CHECK_THAT(strict.err, ContainsSubstring("assumed, which --strict refuses: the model"));
  CHECK_THAT(lockstep({"import", "--help"}).out, ContainsSubstring("Megatron-DeepSpeed"));
}

TEST_CASE("--arg chooses among a script's plans, and names are compared with parameters", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "gpt-7b.sh",
              "if [ $1 = small ]; then L=2; else L=4; fi\ntorchrun --nproc_per_node 8 "
              "pretrain_gpt.py --num-layers $L --hidden-size 64 --num-attention-heads 4 "
              "--seq-length 64 --max-position-embeddings 64 --micro-batch-size 1 "
              "--global-batch-size 8 --vocab-size 256\n");
  const auto open = lockstep({"import", "megatron", folder / "gpt-7b.sh"});
  CHECK(open.exit_code == 2);
  CHECK_THAT(open.err, ContainsSubstring("choose with --arg 1=VALUE"));
  const auto chosen = lockstep({"import", "megatron", folder / "gpt-7b.sh", "--arg", "1=small"});
  CHECK(chosen.exit_code == 0);
  CHECK_THAT(chosen.out, ContainsSubstring("layers = 2"));
  CHECK_THAT(chosen.err, ContainsSubstring("the name gpt-7b.sh says 7,000,000,000 parameters"));
  CHECK(lockstep({"import", "megatron", folder / "gpt-7b.sh", "--arg", "small"}).exit_code == 2);
}

TEST_CASE("run says how another trainer's configuration becomes a scenario", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "ds.json", kDeepSpeed);
  write_bytes(folder / "train.toml", "[job]\ndump_folder = \"x\"\n[model]\nflavor = \"8B\"\n");
  write_bytes(folder / "train.sh", "torchrun pretrain_gpt.py --num-layers 4 --hidden-size 64\n");
  write_bytes(folder / "config.json", "{\"model_type\": \"llama\"}");
  for (const auto& [file, answer] :
       {std::pair{"ds.json", "lockstep import deepspeed"},
        std::pair{"train.toml", "lockstep import torchtitan"},
        std::pair{"train.sh", "lockstep import megatron"}, std::pair{"config.json", "hf_config"}}) {
    const auto ran = lockstep({"run", folder / file});
    INFO(file << ": " << ran.err);
    CHECK(ran.exit_code == 2);
    CHECK_THAT(ran.err, ContainsSubstring(answer));
  }
}

TEST_CASE("what an imported plan says and a scenario refuses is an error of the import", "[cli]") {
  const TemporaryFolder folder;
  write_bytes(folder / "ds.json", "{\"train_batch_size\": 64,\n \"gradient_clipping\": -1}");
  const auto placed = lockstep({"import", "deepspeed", folder / "ds.json", "--model", "gpt2-124m"});
  CHECK(placed.exit_code == 2);
  CHECK_THAT(placed.err,
             ContainsSubstring(folder / "ds.json:2:23: gradient_clipping = -1: training.max_norm"));
  write_bytes(folder / "a.sh",
              "--num-layers 4 --hidden-size 64 --num-attention-heads 4 --seq-length 64 "
              "--max-position-embeddings 32");
  const auto imported = lockstep({"import", "megatron", folder / "a.sh"});
  CHECK(imported.exit_code == 2);
  CHECK_THAT(imported.err, ContainsSubstring("max_seq_len"));
  // The file's argument is what can be mended.
  CHECK_THAT(imported.err, ContainsSubstring("error: " + (folder / "a.sh") + ": --"));
  CHECK(imported.err.find("scenario.toml:") == std::string::npos);
  write_bytes(folder / "b.sh", "--num-layers 4 --hidden-size 64 --num-attention-heads 4");
  const auto without = lockstep({"import", "megatron", folder / "b.sh"});
  CHECK(without.exit_code == 2);
  CHECK_THAT(without.err, ContainsSubstring("there is no --max-position-embeddings here"));
  CHECK(lockstep({"import", "hf", folder / "a.sh"}).exit_code == 2);
  CHECK(lockstep({"import", "megatron", folder / "none.sh"}).exit_code == 2);
}

}  // namespace
}  // namespace lockstep::test
