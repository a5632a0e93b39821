#include "tests/core/handover/importing.hpp"

namespace lockstep {
namespace {

TEST_CASE("a scenario that torchtitan can say comes back from its TOML as it was",
          "[core][handover]") {
  const std::string text = R"([model]
preset = "llama3-8b"
[training]
seq_len = 8192
local_batch_size = 8
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_shard_degree = 4
data_parallel_replicate_degree = 2
tensor_parallel_degree = 2
enable_sequence_parallel = true
pipeline_parallel_degree = 2
pipeline_parallel_schedule = "Interleaved1F1B"
pipeline_parallel_virtual_stages = 2
pipeline_parallel_microbatches = 4
pipeline_parallel_layers_per_stage = [9, 8, 8, 7]
fsdp_reshard_after_forward = "always"
[activation_checkpoint]
mode = "selective"
selective_ac_option = "torchtitan"
[checkpoint]
interval = 100
[cluster]
preset = "h100"
nodes = 4
)";
  CHECK(lost_in(Trainer::Torchtitan, text, {.nodes = 4}) == Lines{});
}

TEST_CASE(
    "replicas that train apart are torchtitan's groups of torchft, and come back as they were",
    "[core][handover]") {
  const std::string text = R"([model]
preset = "llama3-8b"
[training]
seq_len = 8192
local_batch_size = 2
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_shard_degree = 8
data_parallel_replicate_degree = 4
[local_sgd]
method = "diloco"
sync_steps = 100
[cluster]
preset = "h100"
nodes = 4
)";
  CHECK(lost_in(Trainer::Torchtitan, text, {.nodes = 4}) == Lines{});
  const auto there = hand_over("torchtitan", parsed(text));
  REQUIRE(there.ok());
  for (const char* line : {"group_size = 4", "semi_sync_method = \"diloco\"", "sync_steps = 100",
                           "data_parallel_replicate_degree = 1"}) {
    CHECK_THAT(there->text, ContainsSubstring(line));
  }
  CHECK_THAT(there->launch, ContainsSubstring("--nnodes 1 --nproc-per-node 8"));  // of one replica
  CHECK(mentions(there->unsaid, "torchft_lighthouse"));
  const auto other = hand_over("torchtitan", parsed(text, {"local_sgd.outer_lr=0.5"}));
  CHECK(mentions(other->unsaid, "local_sgd.outer_lr"));
  for (const char* trainer : {"megatron", "deepspeed"}) {
    CHECK(mentions(hand_over(trainer, parsed(text))->unsaid, "[local_sgd]"));
  }
  const PlanImport streaming = imported(Trainer::Torchtitan,
                                        there->text +
                                            "fragment_sync_delay = 1\n"
                                            "should_quantize = true\n",
                                        {.nodes = 4});
  CHECK(mentions(streaming.lost, "fragment_sync_delay"));
  CHECK(mentions(streaming.lost, "should_quantize"));
}

TEST_CASE("torchtitan's defaults stand where its file says nothing", "[core][handover]") {
  const PlanImport plan = imported(Trainer::Torchtitan,
                                   "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                   "[training]\ndataset = \"c4\"\n[compile]\nenable = true\n"
                                   "[parallelism]\npipeline_parallel_degree = 4\n"
                                   "pipeline_parallel_schedule = \"Interleaved1F1B\"\n",
                                   {.nodes = 2});
  const Scenario s = parsed(plan.text);
  CHECK(s.training.local_batch_size == 8);
  CHECK(s.training.seq_len == 2048);
  CHECK(s.training.param_dtype() == DType::BF16);
  CHECK(s.activation_checkpoint.mode == ActivationCheckpoint::Selective);
  CHECK(s.strategy.data_parallel_shard_degree == 4);  // 16 GPUs / 4
  CHECK(s.strategy.pipeline_parallel_microbatches == 8);
  // Eight stages of 34 layers, of which embedding and output count as one each.
  CHECK(s.strategy.pipeline_parallel_layers_per_stage == std::vector<int>{4, 5, 4, 4, 4, 4, 4, 3});
  CHECK(mentions(plan.lost, "c4"));
  CHECK(mentions(plan.taken, "compile.enable = true -> framework.preset = \"torchtitan\""));

  const auto unknown = import_plan(Trainer::Torchtitan,
                                   "[model]\nname = \"flux\"\nflavor = \"flux-dev\"\n", "f", {});
  REQUIRE(!unknown.ok());
  CHECK_THAT(unknown.error().message, ContainsSubstring("--model"));
  REQUIRE(unknown.error().where);
  CHECK(unknown.error().where->line == 3);
  const auto other =
      import_plan(Trainer::Torchtitan, "[model]\nname = \"qwen3\"\nflavor = \"7B\"\n", "f", {});
  CHECK_THAT(other.error().message, ContainsSubstring("0.6B, 1.7B, 4B, 8B, 14B, 32B"));
}

TEST_CASE("torchtitan's names of 2024 mean what their successors do", "[core][handover]") {
  const PlanImport plan = imported(Trainer::Torchtitan, R"([model]
name = "llama2"
flavor = "70B"
norm_type = "rmsnorm"
[optimizer]
fused = true
[training]
batch_size = 8
warmup_steps = 50
tensor_parallel_degree = 8
data_parallel_degree = 2
enable_fp8_linear = false
compile = false
[experimental]
pipeline_parallel_degree = 4
pipeline_parallel_split_points = ["layers.19", "layers.40", "layers.61"]
pipeline_parallel_microbatches = 4
enable_async_tensor_parallel = true
[checkpoint]
enable_checkpoint = true
interval_type = "seconds"
interval = 500
)");
  const Scenario s = parsed(plan.text);
  CHECK(s.model.name == "llama2-70b");
  CHECK(s.training.local_batch_size == 8);
  CHECK(s.lr_scheduler.warmup_steps == 50);
  CHECK(s.strategy.tensor_parallel_degree == 8);
  CHECK(s.strategy.tensor_parallel_chunks == 8);
  CHECK(s.strategy.data_parallel_shard_degree == 2);
  CHECK(s.strategy.pipeline_parallel_degree == 4);
  CHECK(s.strategy.pipeline_parallel_microbatches == 4);
  CHECK(s.strategy.pipeline_parallel_layers_per_stage == std::vector<int>{19, 21, 21, 19});
  CHECK(s.checkpoint.interval == 500);
  CHECK(mentions(plan.taken, "experimental.pipeline_parallel_degree = 4"));
  CHECK(plan.lost == Lines{"checkpoint.interval_type = \"seconds\": a checkpoint is written every "
                           "so many steps here"});
  // Without a number the microbatches were as many as the stages.
  const PlanImport usual = imported(Trainer::Torchtitan,
                                    "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                    "[experimental]\npipeline_parallel_degree = 4\n");
  CHECK(parsed(usual.text).strategy.pipeline_parallel_microbatches == 4);
}

TEST_CASE("a misspelt setting of torchtitan is answered with the one it may mean",
          "[core][handover]") {
  const PlanImport plan = imported(Trainer::Torchtitan,
                                   "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                   "[training]\nlocal_batchsize = 4\nbatch_size = 2\n"
                                   "local_batch_size = 4\n"
                                   "[parallelism]\npipeline_parallel_schedule = 5\n"
                                   "[validation]\nenable = \"yes\"\n");
  CHECK(mentions(plan.unknown, "did you mean training.local_batch_size?"));
  CHECK(mentions(plan.lost, "training.batch_size = 2: training.local_batch_size says the same"));
  CHECK(parsed(plan.text).training.local_batch_size == 4);
  CHECK(mentions(plan.lost, "pipeline_parallel_schedule = 5: a string is expected"));
  CHECK(mentions(plan.lost, "validation.enable = \"yes\": true or false is expected"));
}

TEST_CASE("torchtitan's products in 8 bits with one scale leave rows in one piece",
          "[core][handover]") {
  const PlanImport plan = imported(Trainer::Torchtitan,
                                   "[model]\nname = \"llama3\"\nflavor = \"405B\"\n"
                                   "converters = [\"float8\"]\n[parallelism]\n"
                                   "tensor_parallel_degree = 8\n"
                                   "enable_async_tensor_parallel = true\n");
  CHECK(parsed(plan.text).strategy.tensor_parallel_chunks <= 1);
  CHECK(mentions(plan.lost, "enable_async_tensor_parallel = true: beside products in 8 bits"));
  const PlanImport rows = imported(Trainer::Torchtitan,
                                   "[model]\nname = \"llama3\"\nflavor = \"8B\"\n"
                                   "converters = [\"float8\"]\n[quantize.dense.float8]\n"
                                   "recipe_name = \"rowwise\"\n");
  CHECK(mentions(rows.lost, "rowwise"));
}

}  // namespace
}  // namespace lockstep
