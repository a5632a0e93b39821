// The least recomputation: found by bisection, and checked against what one block fewer needs.
#include "core/plan/recomputation.hpp"

#include <numeric>
#include <random>

#include "core/memory/device_memory.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

Scenario pipeline_of(const std::vector<std::string>& set) {
  const LoadedScenario loaded = parse_scenario(R"([model]
architecture = "gpt2"
layers = 16
hidden = 512
heads = 8
vocab = 1024
[training]
seq_len = 512
local_batch_size = 12
[parallelism]
pipeline_parallel_degree = 4
pipeline_parallel_microbatches = 12
[activation_checkpoint]
mode = "full"
[cluster]
preset = "a100-80"
)",
                                               "pipeline", set);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  return loaded.points.front().scenario;
}

Scenario with(Scenario s, const std::vector<int>& recomputed) {
  s.activation_checkpoint.recomputed_layers_per_stage = recomputed;
  return s;
}

/// What the fullest rank needs.
Bytes needed(const Scenario& scenario) {
  const Result<Probe> probe = simulated_probe(scenario);
  if (!probe) FAIL(to_string(probe.error()));
  return *std::max_element(probe->needed.begin(), probe->needed.end());
}

}  // namespace

TEST_CASE("as many blocks are recomputed as memory needs, and with one fewer it does not fit",
          "[core][plan]") {
  const std::string schedule = "parallelism.pipeline_parallel_schedule=";
  const std::string chunks = "parallelism.pipeline_parallel_virtual_stages=";
  std::mt19937 random(7);
  for (const std::vector<std::string>& set : {std::vector<std::string>{},
                                              {schedule + "Interleaved1F1B", chunks + "2"},
                                              {schedule + "ZBVZeroBubble", chunks + "2"},
                                              {schedule + "DualPipe"},
                                              {"parallelism.vocabulary_parallel_pipeline=true"},
                                              {"parallelism.data_parallel_shard_degree=2"}}) {
    const Scenario s = pipeline_of(set);
    const auto stages = to_size(s.strategy.num_stages());
    const Bytes all = needed(s), nothing = needed(with(s, std::vector<int>(stages, 0)));
    REQUIRE(all < nothing);
    for (int i = 0; i < 3; ++i) {
      std::uniform_int_distribution<std::int64_t> between(all.v, nothing.v);
      const Bytes capacity{between(random)};
      INFO((set.empty() ? "1F1B" : set.front()) << ", " << capacity.v << " bytes");
      const auto least = least_recomputation(s, capacity, simulated_probe);
      REQUIRE(least.ok());
      REQUIRE(validate(with(s, *least)).empty());
      CHECK(needed(with(s, *least)) <= capacity);
      // Of a rank's stages the last one that recomputes a block is the one that gives it up.
      for (std::size_t stage = 0; stage < stages; ++stage) {
        if ((*least)[stage] == 0) continue;
        std::vector<int> fewer = *least;
        --fewer[stage];
        const Bytes more = needed(with(s, fewer));
        INFO("stage " << stage);
        CHECK(more > capacity);
      }
    }
  }
}

TEST_CASE("the first ranks of 1F1B recompute more than the last ones", "[core][plan]") {
  const Scenario s = pipeline_of({});
  const Bytes all = needed(s), nothing = needed(with(s, {0, 0, 0, 0}));
  const auto least = least_recomputation(s, Bytes{(all.v + 2 * nothing.v) / 3}, simulated_probe);
  REQUIRE(least.ok());
  CHECK(least->front() > 0);
  CHECK(least->back() == 0);
  CHECK(std::is_sorted(least->rbegin(), least->rend()));
}

TEST_CASE("what does not fit with all blocks recomputed is an error that names the rank",
          "[core][plan]") {
  const Scenario s = pipeline_of({});
  const auto least = least_recomputation(s, Bytes{needed(s).v - 1}, simulated_probe);
  REQUIRE(!least.ok());
  CHECK(least.error().kind == ErrorKind::OutOfMemory);
  CHECK_THAT(least.error().message, ContainsSubstring("pipeline rank"));
}

TEST_CASE("half of the blocks recomputed take half of the time that all of them add",
          "[core][plan]") {
  const Scenario s = pipeline_of({"parallelism.pipeline_parallel_degree=1"});
  const auto step = [&](int recomputed) {
    return simulated_layout(with(s, {recomputed}))->step_time.v;
  };
  CHECK(step(8) - step(0) == Approx((step(16) - step(0)) / 2).epsilon(0.02));
}
