#include "tests/core/handover/importing.hpp"

namespace lockstep {
namespace {

TEST_CASE("a scenario that DeepSpeed can say comes back from its JSON as it was",
          "[core][handover]") {
  CHECK(lost_in(Trainer::DeepSpeed, R"([model]
preset = "gpt-1.3b"
[training]
local_batch_size = 4
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
steps = 300
[lr_scheduler]
warmup_steps = 30
decay_ratio = 1.0
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 3
fsdp_persistence_threshold = 100000
offload = "optimizer"
[cluster]
preset = "h100"
)",
                {.model = "gpt-1.3b"}) == Lines{});
  CHECK(lost_in(Trainer::DeepSpeed, R"([model]
preset = "gpt-1.3b"
[training]
local_batch_size = 4
global_batch_size = 64
dtype = "float32"
mixed_precision_param = "bfloat16"
mixed_precision_reduce = "float32"
[parallelism]
data_parallel_shard_degree = 8
fsdp_persistence_threshold = 100000
offload = "parameters"
offload_optimizer_device = "nvme"
offload_param_device = "nvme"
offload_nvme_path = "/local_nvme"
offload_buffer_count = 4
offload_pipeline_write = false
[cluster]
preset = "h100"
)",
                {.model = "gpt-1.3b"}) == Lines{});
}

TEST_CASE("a warm-up before a cosine is linear at DeepSpeed, too, whose own is logarithmic",
          "[core][handover]") {
  const std::string text = R"([model]
preset = "gpt-1.3b"
[training]
seq_len = 512
local_batch_size = 2
global_batch_size = 16
steps = 10
[lr_scheduler]
warmup_steps = 5
decay_type = "cosine"
decay_ratio = 1.0
min_lr_factor = 0.1
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 1
[cluster]
preset = "h100"
nodes = 1
)";
  const auto there = hand_over("deepspeed", parsed(text));
  REQUIRE(there.ok());
  CHECK_THAT(there->text, ContainsSubstring("\"warmup_type\": \"linear\""));
  const PlanImport back =
      imported(Trainer::DeepSpeed, there->text, {.model = "gpt-1.3b", .nodes = 1, .seq_len = 512});
  CHECK(back.lost.empty());
  CHECK(parsed(back.text).lr_scheduler.warmup_steps == 5);
}

TEST_CASE("DeepSpeed's optimizer of the name Adafactor is torch.optim's", "[core][handover]") {
  const PlanImport plan = imported(Trainer::DeepSpeed, R"({"train_batch_size": 16,
    "zero_optimization": {"stage": 0}, "optimizer": {"type": "Adafactor", "params": {"lr": 0.02,
    "beta2_decay": -0.7, "d": 2.0, "eps": [null, 0.01], "weight_decay": 0.1}}})",
                                   {.model = "gpt-1.3b", .nodes = 1, .seq_len = 512});
  const Scenario s = parsed(plan.text);
  CHECK(s.optimizer.is_adafactor());
  CHECK(s.optimizer.lr == 0.02);
  CHECK(s.optimizer.decay_rate == -0.7);
  CHECK(s.optimizer.clip_threshold == 2);
  CHECK(s.optimizer.eps_scale == 0.01);
  CHECK(s.optimizer.eps_square == OptimizerSpec{}.eps_square);
  CHECK(s.optimizer.relative_step);
  CHECK(mentions(plan.lost, "Adafactor"));
}

TEST_CASE("ZeRO++ comes from DeepSpeed's words and goes back into them", "[core][handover]") {
  const char* const config = R"({"train_batch_size": 16, "zero_optimization": {"stage": 3,
    "zero_quantized_weights": true, "zero_quantized_gradients": true,
    "zero_hpz_partition_size": 8}, "bf16": {"enabled": true}})";
  const PlanImport plan =
      imported(Trainer::DeepSpeed, config, {.model = "gpt-1.3b", .nodes = 2, .seq_len = 512});
  const Scenario s = parsed(plan.text);
  CHECK(s.strategy.zero_quantized_weights);
  CHECK(s.strategy.zero_quantized_gradients);
  CHECK(s.strategy.fsdp_reshard_degree == 8);
  CHECK(s.strategy.inner_shards() == 8);  // those that exchange gradients first
  const auto back = hand_over("deepspeed", s);
  REQUIRE(back.ok());
  CHECK_THAT(back->text, ContainsSubstring("\"zero_quantized_weights\": true"));
  CHECK_THAT(back->text, ContainsSubstring("\"zero_quantized_gradients\": true"));
  CHECK(mentions(back->unsaid, "zero_quantized_block_size"));
  CHECK(mentions(hand_over("torchtitan", s)->unsaid, "zero_quantized_weights"));
}

TEST_CASE("DeepSpeed's \"auto\", old names and defaults are read or named", "[core][handover]") {
  const std::string text = R"({"train_batch_size": "auto", "gradient_accumulation_steps": 4,
    "train_micro_batch_size_per_gpu": 2, "zero_optimization": {"stage": 3, "overlap_comm": true,
    "reduce_bucket_size": 5e8, "offload_param": {"device": "nvme", "nvme_path": "/n"},
    "stage3_max_live_parameters": 1e9}, "fp16": {"enabled": true, "initial_scale_power": 12},
    "optimizer": {"type": "Lamb", "params": {"lr": 1e-3, "betas": [0.8, 0.99]}},
    "steps_per_print": 10, "compression_training": {"a": {"b": 1, "c": 2}}})";
  CHECK(!import_plan(Trainer::DeepSpeed, text, "ds.json", {}).ok());  // no model
  const PlanImport plan =
      imported(Trainer::DeepSpeed, text, {.model = "gpt-1.3b", .nodes = 2, .seq_len = 512});
  const Scenario s = parsed(plan.text);
  CHECK(s.global_batch_size() == 2 * 4 * 16);
  CHECK(s.strategy.data_parallel_shard_degree == 16);
  CHECK(s.strategy.fsdp_persistence_threshold == 100000);  // DeepSpeed's default
  CHECK(s.strategy.bucket_cap.v == 1'000'000'000);
  CHECK(s.strategy.offload == Offload::Parameters);
  CHECK(s.strategy.offload_param_device == OffloadDevice::Nvme);
  CHECK(s.strategy.offload_optimizer_device == OffloadDevice::Cpu);
  CHECK(s.strategy.offload_nvme_path == "/n");
  CHECK(s.loss_scale.init_scale == 4096);
  CHECK(s.optimizer.beta1 == 0.8);
  CHECK(s.training.max_norm == 0);
  for (const char* part : {"train_batch_size = \"auto\"", "Lamb", "stage3_max_live_parameters",
                           "compression_training and its 2"}) {
    INFO(part);
    CHECK(mentions(plan.lost, part));
  }
  CHECK(mentions(plan.without_effect, "steps_per_print"));
  CHECK(mentions(plan.assumed, "persistence"));
  const auto broken = import_plan(Trainer::DeepSpeed, "{\n\"a\": 1,\n}", "ds.json", {.model = "x"});
  REQUIRE(!broken.ok());
  CHECK(broken.error().where->line == 3);
}

TEST_CASE("DeepSpeed's states on NVMe keep their buffers and what overlaps", "[core][handover]") {
  const auto plan = [](const std::string& more) {
    return imported(Trainer::DeepSpeed,
                    R"({"train_batch_size": 16, "zero_optimization": {"stage": 3,
    "offload_optimizer": {"device": "nvme", "nvme_path": "/local_nvme")" +
                        more + R"(}}, "optimizer": {"type": "AdamW"}})",
                    {.model = "gpt-1.3b", .nodes = 1, .seq_len = 512});
  };
  const StrategySpec plain = parsed(plan("").text).strategy;
  CHECK(plain.offload == Offload::Optimizer);
  CHECK(plain.offload_optimizer_device == OffloadDevice::Nvme);
  CHECK(plain.offload_nvme_path == "/local_nvme");
  CHECK(!plain.offload_pipeline_read);  // as DeepSpeed's defaults are
  CHECK(!plain.offload_pipeline_write);
  CHECK(plain.offload_buffer_count == 1);  // 4 tensors of one parameter
  const std::string both = R"(, "pipeline_read": true, "pipeline_write": true)";
  const PlanImport wide = plan(both + R"(, "buffer_count": 16)");
  CHECK(parsed(wide.text).strategy.offload_buffer_count == 4);
  CHECK(parsed(wide.text).strategy.offload_pipeline_read);
  CHECK(!mentions(wide.lost, "buffer_count"));
  const PlanImport narrow = plan(both);
  CHECK(parsed(narrow.text).strategy.offload_buffer_count == 0);
  CHECK(mentions(narrow.lost, "buffer_count has 1 times"));
}

}  // namespace
}  // namespace lockstep
