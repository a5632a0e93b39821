#include "core/plan/best_first.hpp"

#include <algorithm>

#include "core/lower/draft/draft.hpp"
#include "core/lower/passes/passes.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// A small model on one node of some devices, whose memory holds about half of the layouts.
Scenario small_task(const std::string& architecture, int hidden, int devices, int batch,
                    double memory_gb) {
  const LoadedScenario loaded =
      parse_scenario("[model]\narchitecture = \"" + architecture +
                         "\"\nname = \"m\"\nlayers = 8\nhidden = " + std::to_string(hidden) +
                         "\nheads = 16\nvocab = 32000\nmax_seq_len = 2048\n" +
                         "[training]\nseq_len = 2048\nlocal_batch_size = 1\nglobal_batch_size = " +
                         std::to_string(batch) + "\nmixed_precision_param = \"bfloat16\"\n" +
                         "[cluster]\npreset = \"a100-80\"\nnodes = 1\ndevices_per_node = " +
                         std::to_string(devices) +
                         "\n[cluster.device]\nmemory_gb = " + std::to_string(memory_gb) + "\n",
                     "small", {});
  if (!loaded.ok()) FAIL(loaded.errors.front().message);
  return loaded.points.front().scenario;
}

std::vector<Scenario> small_tasks() {
  std::vector<Scenario> tasks;
  for (const char* architecture : {"gpt2", "llama"}) {
    for (const int hidden : {1024, 2048}) {
      for (const int devices : {2, 4}) {
        for (const double memory : {9.0, 16.0, 40.0}) {
          tasks.push_back(small_task(architecture, hidden, devices, 8, memory));
        }
      }
    }
  }
  return tasks;
}

std::vector<FoundLayout> front_of(const SpaceResult& result) {
  std::vector<FoundLayout> front;
  for (const FoundLayout& f : result.found) {  // fastest first
    if (front.empty() || f.figures.memory.needed < front.back().figures.memory.needed) {
      front.push_back(f);
    }
  }
  return front;
}

}  // namespace

TEST_CASE("chunks may leave a block fewer to the first and the last stage", "[core][plan]") {
  Scenario task = small_task("llama", 1024, 8, 16, 80);
  task.model.layers = 14;  // as 126 blocks in 64 stages
  LayoutConstraints constraints;
  constraints.only = {{"pp", 4}, {"v", 2}, {"tp", 1}, {"microbatch", 1}};
  const std::vector<LayoutPoint> points = layout_space(task, constraints);
  REQUIRE(!points.empty());
  const std::optional<Scenario> layout = layout_of(task, points.front());
  REQUIRE(layout);
  const Draft draft(*layout);
  const std::vector<StageLayers> stages = partition(draft.model, layout->model, layout->strategy);
  REQUIRE(stages.size() == 8);
  // Embedding and output layer are beside one block each.
  for (const StageLayers& stage : stages) CHECK(stage.last - stage.first == 2);
}

TEST_CASE("bounds are not above the simulation of any layout", "[core][plan]") {
  int simulated = 0;
  Scenario experts = small_task("llama", 1024, 8, 16, 80);
  experts.model.experts = 8;
  for (const Scenario& task :
       {small_task("gpt2", 1024, 8, 16, 80), small_task("llama", 2048, 4, 32, 80), experts}) {
    LayoutBounds bounds(task);
    LayoutConstraints constraints;
    constraints.offload = task.model.experts == 0;
    const std::vector<LayoutPoint> points = layout_space(task, constraints);
    const std::size_t stride = task.model.experts > 0 ? 37 : 7;
    for (std::size_t i = 0; i < points.size(); i += stride) {
      const std::optional<Scenario> layout = layout_of(task, points[i]);
      if (!layout) continue;
      const Result<Probe> full = simulated_probe(*layout);
      if (!full) FAIL(to_string(full.error()));
      Bytes needed;
      for (const Bytes bytes : full->needed) needed = std::max(needed, bytes);
      const LayoutBound bound = bounds.of(points[i]);
      INFO(layout_name(*layout) << ", " << to_string(points[i].recomputation) << ": bounds "
                                << bound.time.v << " s, " << bound.needed.v << " B; simulated "
                                << full->step.v << " s, " << needed.v << " B");
      CHECK(bound.time <= full->step);
      CHECK(bound.needed <= needed);
      ++simulated;
    }
  }
  CHECK(simulated > 150);
}

TEST_CASE("a pruned search finds the winner and the front of an exhaustive one", "[core][plan]") {
  int problems = 0;
  for (const Scenario& task : small_tasks()) {
    SpaceOptions options;
    options.exhaustive = true;
    const Result<SpaceResult> all = search_space(task, simulated_layout, simulated_probe, options);
    options.exhaustive = false;
    options.front = true;
    const Result<SpaceResult> few = search_space(task, simulated_layout, simulated_probe, options);
    INFO(search_task(task) << ", hidden " << task.model.hidden << ", " << task.cluster.capacity()
                           << " devices of " << task.cluster.device.memory.v);
    REQUIRE(all.ok() == few.ok());
    ++problems;
    if (!all) continue;
    CHECK(few->counts.simulated < all->counts.simulated);
    const auto expected = front_of(*all), found = front_of(*few);
    REQUIRE(found.size() == expected.size());
    for (std::size_t i = 0; i < found.size(); ++i) {
      CHECK(found[i].figures.step_time == expected[i].figures.step_time);
      CHECK(found[i].figures.memory.needed == expected[i].figures.memory.needed);
    }
  }
  CHECK(problems >= 20);
}

TEST_CASE("with states in host memory a search finds a layout where none fits without",
          "[core][plan]") {
  const Scenario task = small_task("llama", 2048, 2, 8, 5);
  SpaceOptions options;
  CHECK(!search_space(task, simulated_layout, simulated_probe, options));
  options.constraints.offload = true;
  const Result<SpaceResult> found = search_space(task, simulated_layout, simulated_probe, options);
  if (!found) FAIL(to_string(found.error()));
  CHECK(found->found.front().point.offload != Offload::None);
  CHECK_THAT(layout_name(found->found.front().scenario), ContainsSubstring("offload"));
}

TEST_CASE("constraints leave only the layouts that are wanted", "[core][plan]") {
  const Scenario task = small_task("gpt2", 1024, 8, 16, 80);
  LayoutConstraints constraints;
  constraints.only = {{"tp", 2}, {"microbatch", 1}};
  const std::vector<LayoutPoint> points = layout_space(task, constraints);
  CHECK(!points.empty());
  for (const LayoutPoint& p : points) {
    CHECK(p.tensor == 2);
    CHECK(p.microbatch == 1);
  }
  CHECK(points.size() < layout_space(task, {}).size());
  const Result<LayoutConstraints::Only> misspelt = parse_only("pt=2");
  REQUIRE(!misspelt.ok());
  CHECK(misspelt.error().message.find("tp, cp, pp") != std::string::npos);
  CHECK(!parse_only("tp").ok());
  CHECK(!parse_only("tp=x").ok());
}
