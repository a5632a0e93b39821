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
selective_ac_option = "op"
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
  CHECK(mentions(plan.lost, "compile.enable"));

  const auto unknown = import_plan(Trainer::Torchtitan,
                                   "[model]\nname = \"flux\"\nflavor = \"flux-dev\"\n", "f", {});
  REQUIRE(!unknown.ok());
  CHECK_THAT(unknown.error().message, ContainsSubstring("--model"));
}

}  // namespace
}  // namespace lockstep
