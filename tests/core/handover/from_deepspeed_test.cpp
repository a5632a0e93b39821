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
  CHECK(mentions(plan.lost, "Lamb"));
  CHECK(mentions(plan.assumed, "train_batch_size = \"auto\""));
  CHECK(mentions(plan.without_effect, "stage3_max_live_parameters"));
  CHECK(mentions(plan.unknown, "compression_training.a.b = 1"));
  CHECK(mentions(plan.without_effect, "steps_per_print"));
  CHECK(mentions(plan.assumed, "persistence"));
  const auto broken = import_plan(Trainer::DeepSpeed, "{\n\"a\": 1,\n}", "ds.json", {.model = "x"});
  REQUIRE(!broken.ok());
  CHECK(broken.error().where->line == 3);
}

/// The message of what is refused, with its line and column.
std::string fault_of(const std::string& config) {
  const auto plan = import_plan(Trainer::DeepSpeed, config, "ds.json", {.model = "gpt-1.3b"});
  REQUIRE_FALSE(plan.ok());
  REQUIRE(plan.error().where);
  return to_string(plan.error());
}

TEST_CASE("text that is no JSON is refused with its place, what stands there and what should",
          "[core][handover]") {
  const std::string value =
      ": a value is expected: a number, text in double quotes, true, false, null, [ or {";
  const std::string begin = "this is not JSON: ";
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"{\n  \"a\": 1,\n}", "ds.json:3:1: " + begin +
                                     "}: a key in double quotes is expected; the comma before it "
                                     "is one too many"},
           {"{\n  \"a\": [1, 2,]}",
            "ds.json:2:14: " + begin + "]" + value + "; the comma before it is one too many"},
           {"{\"a\": 1\n \"b\": 2}", "ds.json:2:2: " + begin + "\"b\": a comma or } is expected"},
           {"{\"a\": [1 2]}", "ds.json:1:10: " + begin + "2: a comma or ] is expected"},
           {"{\"a\" 1}", "ds.json:1:6: " + begin + "1: a colon and a value are expected"},
           {"{\"a\": True}",
            "ds.json:1:7: " + begin + "True" + value + "; JSON writes true, false and null"},
           {"{\"a\": }", "ds.json:1:7: " + begin + "}" + value},
           {"{a: 1}", "ds.json:1:2: " + begin + "a: a key in double quotes is expected"},
           {"{ // batch\n\"a\": 1}", "ds.json:1:3: " + begin +
                                         "//: a key in double quotes is expected; JSON has no "
                                         "comments"},
           {"{\"a\": 12",
            "ds.json:1:9: " + begin + "the end of the file: a comma or } is expected"},
           {"{\"a\": \"x\n\"}", "ds.json:1:7: " + begin +
                                    "\"x: invalid string: control character "
                                    "U+000A (LF) must be escaped to "
                                    "\\u000A or \\n"},
           {"{\"a\": 1} {", "ds.json:1:10: " + begin + "{: the end of the file is expected"},
           {"{\"a\": 1e999}",
            "ds.json:1:7: " + begin + "1e999: the number is beyond the range of numbers"},
           {"[1]", "ds.json:1:1: an object { ... } is expected"},
           {"", "ds.json:1:1: " + begin + "the end of the file" + value},
           {"{\"a\": {\"b\": 1,\n\"b\": 2}}",
            "ds.json:2:1: \"b\" stands twice in one object, first in line 1: keep one of them"}}) {
    CHECK(fault_of(text) == message);
  }
  CHECK(fault_of("{\"a\":" + std::string(100'000, '[')) ==
        "ds.json:1:69: more than 64 objects and lists lie in each other here, and a configuration "
        "has a few");
  // The same key in another object, or list, is another.
  CHECK_FALSE(import_plan(Trainer::DeepSpeed,
                          R"({"a": {"b": 1}, "c": {"b": [{"b": 1}, {"b": 2}]}})", "ds.json", {})
                  .error()
                  .where);
}

TEST_CASE("values of DeepSpeed that cannot be are refused with their place and what is expected",
          "[core][handover]") {
  for (const auto& [text, message] : std::vector<std::pair<std::string, std::string>>{
           {"{\n  \"train_batch_size\": \"many\"}",
            "2:23: train_batch_size = \"many\": a number is expected"},
           {"{\"train_batch_size\": 0}",
            "1:22: train_batch_size = 0: a whole number above 0 is expected"},
           {"{\"train_micro_batch_size_per_gpu\": 2.5}",
            "1:36: train_micro_batch_size_per_gpu = 2.5: a whole number above 0 is expected"},
           {"{\"gradient_accumulation_steps\": -4}",
            "1:33: gradient_accumulation_steps = -4: a whole number above 0 is expected"},
           {"{\"zero_optimization\": {\"stage\":\n 4}}",
            "2:2: zero_optimization.stage = 4: 0, 1, 2 or 3 is expected"},
           {"{\"zero_optimization\": true}",
            "1:23: zero_optimization = true: an object { ... } is expected"},
           {"{\"fp16\": {\"enabled\": \"yes\"}}",
            "1:22: fp16.enabled = \"yes\": true or false is expected"},
           {"{\"optimizer\": {\"type\": 3}}",
            "1:24: optimizer.type = 3: text in double quotes is expected"},
           {"{\"optimizer\": {\"type\": \"AdamW\", \"params\": {\"betas\": [0.9]}}}",
            "1:53: optimizer.params.betas = [0.9]: a list of two numbers is expected"},
           // Of two, the first in the file is told.
           {"{\"zero_optimization\": {\"stage\": 9},\n\"train_batch_size\": -1}",
            "1:33: zero_optimization.stage = 9: 0, 1, 2 or 3 is expected"}}) {
    CHECK(fault_of(text) == "ds.json:" + message);
  }
  // A word for a truth, and null, are what Python makes of them.
  const PlanImport plan = imported(Trainer::DeepSpeed, R"({"train_batch_size": 8,
      "bf16": {"enabled": "true"}, "gradient_clipping": null})",
                                   {.model = "gpt-1.3b", .seq_len = 512});
  CHECK_THAT(plan.text, ContainsSubstring("mixed_precision_param = \"bfloat16\""));
  CHECK(mentions(plan.without_effect, "gradient_clipping, which is null"));
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
