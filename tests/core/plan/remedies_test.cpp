// What makes a scenario fit: the keys that are named do, when they are set.
#include "core/plan/remedies.hpp"

#include <algorithm>

#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

constexpr const char* kText = R"([model]
architecture = "gpt2"
layers = 12
hidden = 2048
heads = 16
vocab = 50304
[training]
seq_len = 2048
local_batch_size = 4
mixed_precision_param = "bfloat16"
[parallelism]
data_parallel_shard_degree = 8
zero_stage = 3
[cluster]
preset = "a100-80"
[cluster.device]
memory_gb = )";

LoadedScenario loaded(const std::string& memory_gb, const std::vector<std::string>& set) {
  return parse_scenario(kText + memory_gb, "remedies", set);
}

Scenario scenario(const std::string& memory_gb, const std::vector<std::string>& set = {}) {
  const LoadedScenario file = loaded(memory_gb, set);
  if (!file.ok()) FAIL(to_string(file.errors.front()));
  return file.points.front().scenario;
}

}  // namespace

TEST_CASE("each remedy fits, and its keys set in the file make the same scenario", "[core][plan]") {
  for (const char* memory : {"11.0", "8.0", "6.0"}) {
    INFO(memory << " GB");
    const Scenario s = scenario(memory);
    REQUIRE(simulated_layout(s).error().kind == ErrorKind::OutOfMemory);
    const std::vector<Remedy> found = remedies(s, simulated_layout, simulated_probe);
    REQUIRE(!found.empty());
    Seconds before;
    for (const Remedy& remedy : found) {
      CHECK(remedy.figures.memory.needed <= s.cluster.device.memory);
      CHECK(before <= remedy.figures.step_time);
      before = remedy.figures.step_time;
      CHECK(scenario(memory, remedy.keys) == remedy.scenario);
    }
  }
}

TEST_CASE("a device that holds no layout has no remedy, and the text says where to go on",
          "[core][plan]") {
  const std::vector<Remedy> none = remedies(scenario("0.05"), simulated_layout, simulated_probe);
  CHECK(none.empty());
  CHECK_THAT(remedies_text(none), ContainsSubstring("lockstep search"));
}

TEST_CASE("whole gradients of many passes are remedied by adding up shards", "[core][plan]") {
  const std::vector<std::string> passes = {
      "training.local_batch_size=1", "training.global_batch_size=64",
      "activation_checkpoint.mode=full", "parallelism.accumulate_sharded_gradients=never"};
  const Scenario s = scenario("5.1", passes);
  REQUIRE(!simulated_layout(s).ok());
  const std::vector<Remedy> found = remedies(s, simulated_layout, simulated_probe);
  REQUIRE(!found.empty());
  CHECK(found.front().keys ==
        std::vector<std::string>{"parallelism.accumulate_sharded_gradients=always"});
}

TEST_CASE("a pipeline that fits but for its first ranks is remedied by recomputing their blocks",
          "[core][plan]") {
  const std::vector<std::string> stages = {
      "parallelism.data_parallel_shard_degree=1", "parallelism.pipeline_parallel_degree=4",
      "parallelism.pipeline_parallel_microbatches=16", "training.local_batch_size=16"};
  const Scenario s = scenario("8.5", stages);
  REQUIRE(!simulated_layout(s).ok());
  const std::vector<Remedy> found = remedies(s, simulated_layout, simulated_probe);
  const auto by_stage = std::find_if(found.begin(), found.end(), [](const Remedy& r) {
    return r.keys.size() == 2 &&
           !r.scenario.activation_checkpoint.recomputed_layers_per_stage.empty();
  });
  const auto whole = std::find_if(found.begin(), found.end(), [](const Remedy& r) {
    return r.keys == std::vector<std::string>{"activation_checkpoint.mode=full"};
  });
  REQUIRE(by_stage != found.end());
  REQUIRE(whole != found.end());
  const std::vector<int>& counts =
      by_stage->scenario.activation_checkpoint.recomputed_layers_per_stage;
  CHECK(counts.front() > counts.back());
  CHECK(by_stage->figures.step_time < whole->figures.step_time);
  std::vector<std::string> set = stages;
  set.insert(set.end(), by_stage->keys.begin(), by_stage->keys.end());
  CHECK(scenario("8.5", set) == by_stage->scenario);
}

TEST_CASE("numbers of blocks that are too small are remedied by larger ones", "[core][plan]") {
  const std::vector<std::string> stages = {
      "parallelism.data_parallel_shard_degree=1",
      "parallelism.pipeline_parallel_degree=4",
      "parallelism.pipeline_parallel_microbatches=16",
      "training.local_batch_size=16",
      "activation_checkpoint.mode=full",
      "activation_checkpoint.recomputed_layers_per_stage=[0,1,0,0]"};
  const Scenario s = scenario("8.5", stages);
  REQUIRE(!simulated_layout(s).ok());
  const std::vector<Remedy> found = remedies(s, simulated_layout, simulated_probe);
  REQUIRE(!found.empty());
  CHECK(std::any_of(found.begin(), found.end(), [](const Remedy& r) {
    return r.scenario.activation_checkpoint.recomputed_layers_per_stage.size() == 4 &&
           r.scenario.activation_checkpoint.recomputed_layers_per_stage.front() > 0;
  }));
  for (const Remedy& remedy : found) {
    std::vector<std::string> set = stages;
    set.insert(set.end(), remedy.keys.begin(), remedy.keys.end());
    CHECK(scenario("8.5", set) == remedy.scenario);
  }
}
