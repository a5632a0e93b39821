#include "core/spec/validate/warnings.hpp"

#include <algorithm>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

Scenario vision(int ranks, int images) {
  Scenario s;
  s.model.architecture = Architecture::Resnet;
  s.model.blocks = {1};
  s.model.layers = 1;
  s.model.image_size = 16;
  s.training.seq_len = 1;
  s.training.local_batch_size = images;
  s.strategy.data_parallel_replicate_degree = ranks;
  s.cluster.ranks_per_device = 64;
  return s;
}

bool warns(const Scenario& s, const std::string& key) {
  REQUIRE(validate(s).empty());
  const std::vector<Warning> found = warnings(s);
  return std::any_of(found.begin(), found.end(), [&](const Warning& w) { return w.key == key; });
}

TEST_CASE("batch norm over few images of one rank is warned of", "[core][spec]") {
  const std::string key = "parallelism.sync_batch_norm";
  CHECK(warns(vision(4, 2), key));
  CHECK(warns(vision(2, 15), key));
  CHECK_FALSE(warns(vision(2, 16), key));
  CHECK_FALSE(warns(vision(1, 2), key));  // nothing to synchronize with
  Scenario synchronized = vision(4, 2);
  synchronized.strategy.sync_batch_norm = true;
  CHECK_FALSE(warns(synchronized, key));
  Scenario pipelined = vision(2, 32);  // the statistics are a microbatch's
  pipelined.strategy.pipeline_parallel_microbatches = 4;
  CHECK(warns(pipelined, key));
}

TEST_CASE("bfloat16 on a card that computes it as float32 is warned of by name", "[core][spec]") {
  Scenario s = vision(1, 16);
  s.cluster.device.name = "an old card";
  s.cluster.device.peaks = {{DType::F32, {15.7e12}}, {DType::F16, {125e12}}};
  CHECK(warnings(s).empty());  // trains in float32
  s.training.mixed_precision_param = PartDType::BF16;
  CHECK(warns(s, "training.mixed_precision_param"));
  const std::string message = warnings(s).front().message;
  CHECK_THAT(message, ContainsSubstring("an old card has no units for bfloat16"));
  CHECK_THAT(message, ContainsSubstring("16 TFLOP/s, not at float16's 125"));
  CHECK_THAT(message, ContainsSubstring("mixed_precision_param = \"float16\""));
  Scenario half = s;
  half.training.mixed_precision_param = PartDType::F16;
  CHECK(warnings(half).empty());
  Scenario whole = s;
  whole.training.mixed_precision_param = PartDType::Default;
  whole.training.dtype = DType::BF16;
  CHECK(warns(whole, "training.dtype"));
  s.cluster.device.peaks.push_back({DType::BF16, {125e12}});
  CHECK(warnings(s).empty());
  s.cluster.device.peaks = {{DType::F32, {1e11}}};  // a CPU: no type is faster
  CHECK(warnings(s).empty());
}

TEST_CASE("an order that is never reshuffled is warned of", "[core][spec]") {
  Scenario s = vision(1, 16);
  CHECK(warnings(s).empty());
  s.training.reshuffle = false;
  CHECK(warns(s, "training.reshuffle"));
}

TEST_CASE("blocks of 8-bit moments that tensor parallelism cuts are warned of", "[core][spec]") {
  Scenario s;
  s.model.architecture = Architecture::Llama;
  s.model.layers = 2;
  s.model.hidden = 4096;  // as Llama-3 8B
  s.model.heads = s.model.kv_heads = 32;
  s.model.head_dim = 128;
  s.model.ffn_hidden = 14336;
  s.model.vocab = 256;
  s.cluster.ranks_per_device = 64;
  s.optimizer.state_dtype = StateDType::U8;
  s.strategy.tensor_parallel_degree = 8;  // 14336 / 8 = 7 x 256
  CHECK(warnings(s).empty());
  s.strategy.tensor_parallel_degree = 32;  // 4096 / 32 = 128
  CHECK(warns(s, "optimizer.block_size"));
  s.optimizer.block_size = 64;
  CHECK(warnings(s).empty());
}

TEST_CASE("a key that the optimizer does not read is warned of, with those that do",
          "[core][spec]") {
  const auto with = [](OptimizerKind name) {
    Scenario s = vision(2, 32);
    s.optimizer.name = name;
    s.optimizer.momentum = 0.95;
    return s;
  };
  CHECK_FALSE(warns(with(OptimizerKind::Sgd), "optimizer.momentum"));
  CHECK(warns(with(OptimizerKind::AdamW), "optimizer.momentum"));
  CHECK(warnings(with(OptimizerKind::AdamW)).back().message ==
        "has no effect: only name=SGD or Muon reads it");
  CHECK_FALSE(warns(vision(2, 32), "optimizer.momentum"));  // as it is by default
}

TEST_CASE("a scaled learning rate without warm-up is warned of", "[core][spec]") {
  Scenario s = vision(4, 32);
  s.lr_scheduler.scale_with_ranks = true;
  CHECK(warns(s, "lr_scheduler.warmup_steps"));
  s.lr_scheduler.warmup_steps = 1;
  CHECK(warnings(s).empty());
}

}  // namespace
}  // namespace lockstep
