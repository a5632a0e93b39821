#include "core/spec/validate/validate.hpp"

#include <algorithm>

#include "core/spec/scenario.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

Scenario tiny() {
  Scenario s;
  ModelSpec& m = s.model;
  m.name = "tiny";
  m.layers = 4;
  m.hidden = 64;
  m.heads = m.kv_heads = 4;
  m.head_dim = 16;
  m.ffn_hidden = 256;
  m.vocab = 256;
  m.max_seq_len = 128;
  s.training.seq_len = 64;
  s.cluster.ranks_per_device = 64;
  return s;
}

bool faulty(const Scenario& s, const std::string& key) {
  const std::vector<Fault> faults = validate(s);
  return std::any_of(faults.begin(), faults.end(), [&](const Fault& f) { return f.key == key; });
}

TEST_CASE("a small model on one rank is sound", "[core][spec]") { CHECK(validate(tiny()).empty()); }

TEST_CASE("every fault is reported at once, each under the key that caused it", "[core][spec]") {
  Scenario s = tiny();
  s.model.kv_heads = 3;
  s.what_if.straggler_rank = 1;
  s.optimizer.weight_decay = 0;
  s.optimizer.weight_decay_on = DecayedParameters::Matrices;
  for (const char* key :
       {"model.kv_heads", "what_if.straggler_rank", "optimizer.weight_decay_on"}) {
    INFO(key);
    CHECK(faulty(s, key));
  }
}

TEST_CASE("all keys outside of their range are reported at once, before what joins several",
          "[core][spec]") {
  Scenario s = tiny();
  s.model.kv_heads = 3;  // does not divide heads
  s.training.steps = 0;
  s.training.max_norm = -1;
  s.strategy.fsdp_prefetch = -1;
  s.optimizer.beta1 = 1;
  s.lr_scheduler.decay_ratio = 2;
  s.checkpoint.interval = -1;
  for (const char* key : {"training.steps", "parallelism.fsdp_prefetch", "optimizer.beta1",
                          "lr_scheduler.decay_ratio", "checkpoint.interval"}) {
    INFO(key);
    CHECK(faulty(s, key));
  }
  CHECK_FALSE(faulty(s, "model.kv_heads"));
}

TEST_CASE("a batch must divide over ranks and microbatches", "[core][spec]") {
  Scenario s = tiny();
  s.strategy.data_parallel_replicate_degree = 2;
  for (const int local : {1, 2, 3, 4}) {
    for (const int global : {1, 2, 4, 6, 8, 12}) {
      for (const int microbatches : {1, 2, 3}) {
        s.training.local_batch_size = local;
        s.training.global_batch_size = global;
        s.strategy.pipeline_parallel_microbatches = microbatches;
        INFO(local << " " << global << " " << microbatches);
        CHECK(faulty(s, "training.global_batch_size") == (global % (2 * local) != 0));
        CHECK(faulty(s, "parallelism.pipeline_parallel_microbatches") ==
              (local % microbatches != 0));
        if (!validate(s).empty()) continue;
        // What a step does adds up to the global batch.
        CHECK(s.num_microbatches() * s.microbatch_size() * 2 == global);
        CHECK(s.tokens_per_step() == std::int64_t{global} * s.training.seq_len);
      }
    }
  }
}

TEST_CASE("a strategy must fit the cluster exactly up to its capacity", "[core][spec]") {
  Scenario s = tiny();
  s.cluster.nodes = 2;
  s.cluster.devices_per_node = 3;
  s.cluster.ranks_per_device = 1;
  s.strategy.data_parallel_shard_degree = 6;
  CHECK_FALSE(faulty(s, "parallelism"));
  s.strategy.data_parallel_shard_degree = 7;
  CHECK(faulty(s, "parallelism"));
}

TEST_CASE("a stage layout uses all blocks, and only the first and last stage may have none",
          "[core][spec]") {
  const std::string key = "parallelism.pipeline_parallel_layers_per_stage";
  Scenario s = tiny();
  s.strategy.pipeline_parallel_degree = 2;
  const auto layout = [&](std::vector<int> layers) {
    s.strategy.pipeline_parallel_layers_per_stage = std::move(layers);
    return !faulty(s, key);
  };
  CHECK(layout({}));
  CHECK(layout({1, 3}));
  CHECK_FALSE(layout({4}));
  CHECK_FALSE(layout({2, 3}));
  CHECK(layout({0, 4}));
  CHECK(layout({4, 0}));
  CHECK_FALSE(layout({-1, 5}));
  s.strategy.pipeline_parallel_degree = 3;
  CHECK(layout({0, 4, 0}));
  CHECK_FALSE(layout({2, 0, 2}));
}

TEST_CASE("the largest numbers a file can hold are faults, not overflows", "[core][spec]") {
  constexpr int kMax = 2147483647;
  for (int field = 0; field < 12; ++field) {
    Scenario s = tiny();
    StrategySpec& p = s.strategy;
    int* const fields[] = {&p.data_parallel_replicate_degree,
                           &p.data_parallel_shard_degree,
                           &p.tensor_parallel_degree,
                           &p.pipeline_parallel_degree,
                           &p.pipeline_parallel_virtual_stages,
                           &p.pipeline_parallel_microbatches,
                           &s.cluster.nodes,
                           &s.cluster.devices_per_node,
                           &s.cluster.ranks_per_device,
                           &s.training.local_batch_size,
                           &s.what_if.straggler_rank,
                           &s.training.seq_len};
    *fields[field] = kMax;
    INFO(field);
    CHECK_FALSE(validate(s).empty());
    *fields[field] = -kMax - 1;
    CHECK_FALSE(validate(s).empty());
  }
  Scenario s = tiny();
  s.cluster.nodes = s.cluster.devices_per_node = s.cluster.ranks_per_device = 1 << 20;
  CHECK(faulty(s, "cluster.nodes"));
}

TEST_CASE("states in another type are refused where no optimizer has them", "[core][spec]") {
  Scenario s = tiny();
  s.optimizer.state_dtype = StateDType::U8;
  CHECK(validate(s).empty());
  s.optimizer.block_size = 0;
  CHECK(faulty(s, "optimizer.block_size"));
  s.optimizer.block_size = 64;
  CHECK(validate(s).empty());
  s.optimizer.name = OptimizerKind::Sgd;
  CHECK(faulty(s, "optimizer.state_dtype"));
  s.optimizer.state_dtype = StateDType::BF16;
  CHECK(faulty(s, "optimizer.block_size"));  // has no blocks
  s.optimizer.block_size = 256;
  CHECK(validate(s).empty());
  s.training.dtype = DType::F64;
  CHECK(faulty(s, "optimizer.state_dtype"));
  s.optimizer.name = OptimizerKind::AdamW;
  s.optimizer.state_dtype = StateDType::U8;
  CHECK(validate(s).empty());
  s.training.dtype = DType::BF16;
  s.training.stochastic_rounding = true;
  CHECK(faulty(s, "optimizer.state_dtype"));
}

TEST_CASE("given costs belong to the synthetic model alone, one value or one per stage",
          "[core][spec]") {
  Scenario s = tiny();
  s.costs = CostsSpec{{1}, {1}, {1}, 0};
  CHECK(faulty(s, "costs"));
  s.model = ModelSpec{};
  s.model.architecture = Architecture::Synthetic;
  CHECK(validate(s).empty());
  s.strategy.pipeline_parallel_degree = 3;
  s.costs->forward = {1, 2};
  CHECK(faulty(s, "costs.forward"));
  s.costs->forward = {1, 2, 3};
  CHECK(validate(s).empty());
  s.costs->backward_input = {-1};
  CHECK(faulty(s, "costs.backward_input"));
  s.costs.reset();
  CHECK(faulty(s, "model.preset"));
}

}  // namespace
}  // namespace lockstep
