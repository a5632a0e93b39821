#include "core/plan/settings.hpp"

#include <algorithm>

#include "core/plan/best_first.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// Eight blocks on four ranks with a batch of 16 sequences, and `strategy` in [parallelism].
Scenario task(const std::string& strategy) {
  const LoadedScenario loaded = parse_scenario(
      "[model]\narchitecture = \"llama\"\nname = \"m\"\nlayers = 8\nhidden = 1024\nheads = 16\n"
      "vocab = 32000\nmax_seq_len = 1024\n"
      "[training]\nseq_len = 1024\nlocal_batch_size = 1\nglobal_batch_size = 16\n"
      "mixed_precision_param = \"bfloat16\"\n[parallelism]\n" +
          strategy + "[cluster]\npreset = \"a100-80\"\nnodes = 1\ndevices_per_node = 4\n",
      "task", {});
  if (!loaded.ok()) FAIL(loaded.errors.front().message);
  return loaded.points.front().scenario;
}

std::vector<std::size_t> choices(const std::string& strategy) {
  const Scenario layout = task(strategy);
  std::vector<std::size_t> counts;
  for (const Alternatives& alternatives : settings(layout.cluster.device.memory, simulated_probe)) {
    const std::vector<Scenario> others = alternatives(layout);
    for (const Scenario& other : others) {
      CHECK(validate(other).empty());
      CHECK(!(other == layout));
      CHECK(layout_name(other) != layout_name(layout));
    }
    counts.push_back(others.size());
  }
  return counts;
}

}  // namespace

TEST_CASE("a layout has only the settings that it uses", "[core][plan]") {
  using Counts = std::vector<std::size_t>;  // accumulation, prefetch, buckets, recomputation
  CHECK(choices("data_parallel_replicate_degree = 4\n") == Counts{0, 0, 2, 0});
  CHECK(choices("data_parallel_shard_degree = 4\nzero_stage = 1\n") == Counts{0, 0, 0, 0});
  CHECK(choices("data_parallel_shard_degree = 4\nzero_stage = 2\n") == Counts{1, 0, 0, 0});
  CHECK(choices("data_parallel_shard_degree = 4\n") == Counts{1, 3, 0, 0});
  CHECK(choices("tensor_parallel_degree = 4\n") == Counts{0, 0, 0, 0});
}

TEST_CASE("blocks that are all recomputed may be fewer, if memory has a limit", "[core][plan]") {
  Scenario layout = task("pipeline_parallel_degree = 4\n");
  layout.training.local_batch_size = layout.training.global_batch_size = 16;
  layout.strategy.pipeline_parallel_microbatches = 16;
  REQUIRE(validate(layout).empty());
  const auto needed = [&](ActivationCheckpoint mode) {
    Scenario s = layout;
    s.activation_checkpoint.mode = mode;
    return simulated_layout(s)->memory.needed;
  };
  const Bytes none = needed(ActivationCheckpoint::None), all = needed(ActivationCheckpoint::Full);
  const auto alternatives = [&](Bytes capacity) {
    return settings(capacity, simulated_probe).back()(layout);
  };
  CHECK(alternatives(all).empty());  // nothing is recomputed as it is
  layout.activation_checkpoint.mode = ActivationCheckpoint::Full;
  CHECK(alternatives(Bytes{}).empty());
  CHECK(alternatives(none).empty());
  const std::vector<Scenario> tight = alternatives(Bytes{(all.v + none.v) / 2});
  REQUIRE(tight.size() == 1);
  CHECK(validate(tight.front()).empty());
  CHECK(tight.front().activation_checkpoint.recomputed_layers_per_stage.back() == 0);
  CHECK_THAT(layout_name(tight.front()), ContainsSubstring("of 8 blocks"));
}

TEST_CASE("a search takes the settings that make its best layout better, and no others",
          "[core][plan]") {
  // Whole gradients take half of the time, and two units ahead nine tenths; four units ahead would
  // be faster still, but need more memory than there is.
  const LayoutOracle oracle = [](const Scenario& layout) -> Result<LayoutFigures> {
    Result<LayoutFigures> figures = simulated_layout(layout);
    if (!figures) return figures;
    figures->step_time = Seconds{layout.accumulates_shards() ? 2.0 : 1.0};
    const int ahead = layout.strategy.fsdp_prefetch;
    if (ahead == 2) figures->step_time.v *= 0.9;
    if (ahead == 0) figures->step_time.v *= 0.9995;  // not worth a change
    if (ahead == 4) figures->step_time.v *= 0.5;
    figures->memory.needed = Bytes{std::int64_t{ahead == 4 ? 90 : 40} << 30};
    return figures;
  };
  SpaceOptions options;
  options.finalists = 1;
  for (const char* only : {"tp=1", "pp=1", "cp=1", "zero=3", "microbatch=1"}) {
    options.constraints.only.push_back(*parse_only(only));
  }
  const Scenario base = task("");
  options.settings = false;
  const auto plain = search_space(base, oracle, simulated_probe, options);
  REQUIRE(plain.ok());
  CHECK(plain->counts.settings == 0);
  CHECK(plain->found.front().figures.step_time.v == 2);

  options.settings = SpaceOptions().settings;  // every search does, unless it is told not to
  const auto chosen = search_space(base, oracle, simulated_probe, options);
  REQUIRE(chosen.ok());
  CHECK(chosen->found.size() == plain->found.size());
  CHECK(chosen->counts.settings == 4);
  CHECK(chosen->counts.simulated == plain->counts.simulated);
  const FoundLayout& best = chosen->found.front();
  CHECK(best.point == plain->found.front().point);
  CHECK(best.figures.step_time.v == Approx(0.9));
  CHECK(best.scenario.strategy.fsdp_prefetch == 2);
  CHECK(!best.scenario.accumulates_shards());
  CHECK_THAT(layout_name(best.scenario),
             ContainsSubstring("prefetch 2") && ContainsSubstring("accumulation of whole"));
}
