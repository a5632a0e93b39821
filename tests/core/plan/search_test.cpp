#include "core/plan/search.hpp"

#include <array>
#include <atomic>
#include <set>

#include "core/model/model.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

/// A model of four blocks, with heads and feed-forward widths divisible by 4, on eight devices in
/// two nodes, with 32 sequences a step.
Scenario eight_devices(Architecture architecture = Architecture::Gpt2) {
  Scenario s = test::tiny_scenario(architecture, {});
  s.cluster.nodes = 2;
  s.cluster.devices_per_node = 4;
  s.cluster.ranks_per_device = 1;
  s.training.global_batch_size = 32;
  return s;
}

/// An oracle whose tokens/s depend on the layout only. Layouts with more sequences in a microbatch
/// than the given limit are too large.
Result<LayoutFigures> asked(const Scenario& s, int most_kept, int most_recomputed) {
  const bool full = s.activation_checkpoint.mode == ActivationCheckpoint::Full;
  if (s.microbatch_size() > (full ? most_recomputed : most_kept)) {
    return Error{ErrorKind::OutOfMemory, "too large", std::nullopt};
  }
  LayoutFigures figures;
  figures.throughput = 1000 * s.strategy.tensor_parallel_degree +
                       100 * s.strategy.pipeline_parallel_degree + s.microbatch_size();
  return figures;
}

}  // namespace

TEST_CASE("families are all ways to divide the ranks, and train the same batch", "[core][plan]") {
  Scenario base = eight_devices();
  base.expect.push_back({.key = "step_time_s", .value = 1, .min = {}, .max = {}, .where = {}});
  base.activation_checkpoint = {ActivationCheckpoint::Full, "2"};
  std::set<std::array<int, 3>> divisions;
  std::set<int> stages;
  std::set<PipelineSchedule> schedules;
  for (const LayoutFamily& family : layout_families(base)) {
    int before = 0;
    REQUIRE(family.kept.size() == family.recomputed.size());
    for (std::size_t i = 0; i < family.kept.size(); ++i) {
      const Scenario& s = family.kept[i];
      INFO(layout_name(s));
      CHECK(validate(s).empty());
      CHECK(s.strategy.world_size() == 8);
      CHECK(s.expect.empty());
      CHECK(s.activation_checkpoint.mode == ActivationCheckpoint::None);
      CHECK(s.global_batch_size() == 32);
      CHECK(s.microbatch_size() > before);
      before = s.microbatch_size();
      Scenario again = family.recomputed[i];
      CHECK(again.activation_checkpoint.mode == ActivationCheckpoint::Full);
      again.activation_checkpoint = s.activation_checkpoint;
      CHECK(again == s);
      divisions.insert({s.strategy.tensor_parallel_degree, s.strategy.pipeline_parallel_degree,
                        s.strategy.data_parallel_degree()});
      stages.insert(s.strategy.state_shards() > 1 ? s.strategy.zero_stage : 0);
      schedules.insert(s.strategy.pipeline_parallel_schedule);
    }
  }
  // t p d = 8 with t inside a node of 4 and at most a rank per block.
  std::set<std::array<int, 3>> expected;
  for (const int t : {1, 2, 4}) {
    for (const int p : {1, 2, 4}) {
      if (8 % (t * p) == 0) expected.insert({t, p, 8 / (t * p)});
    }
  }
  CHECK(divisions == expected);
  CHECK(stages == std::set<int>{0, 1, 3});
  CHECK(schedules == std::set<PipelineSchedule>{PipelineSchedule::OneFOneB,
                                                PipelineSchedule::Interleaved1F1B,
                                                PipelineSchedule::ZbvZeroBubble});
}

TEST_CASE("families whose states exceed the memory are left out", "[core][plan]") {
  Scenario s = eight_devices();
  const auto replicated = [&] {
    int count = 0;
    for (const LayoutFamily& family : layout_families(s)) {
      const StrategySpec& p = family.kept.front().strategy;
      if (p.data_parallel_replicate_degree == 8) ++count;
    }
    return count;
  };
  const std::int64_t states = 16 * build_layers(s.model, {}).parameter_count();  // float32 and Adam
  s.cluster.device.memory = Bytes{states};
  CHECK(replicated() == 1);
  s.cluster.device.memory = Bytes{states - 1};
  CHECK(replicated() == 0);
  CHECK_FALSE(layout_families(s).empty());
  s.cluster.device.memory = Bytes{1000};
  CHECK(layout_families(s).empty());
}

TEST_CASE("experts are divided over tensor-parallel ranks, too, with more experts than shards",
          "[core][plan]") {
  Scenario s = eight_devices(Architecture::Llama);
  s.model.experts = 8;
  int wider = 0;
  for (const LayoutFamily& family : layout_families(s)) {
    const StrategySpec& p = family.kept.front().strategy;
    if (!p.expert_parallel_folding) continue;
    CHECK(p.tensor_parallel_degree * p.context_parallel_degree > 1);
    if (p.expert_parallel_degree > p.data_parallel_shard_degree) ++wider;
    CHECK(layout_name(family.kept.front()).find(" folded") != std::string::npos);
  }
  CHECK(wider > 0);
}

TEST_CASE("experts are divided among data-parallel ranks, long sequences among ranks",
          "[core][plan]") {
  Scenario s = eight_devices(Architecture::Llama);
  s.model.experts = 4;
  std::set<int> experts, contexts;
  for (const LayoutFamily& family : layout_families(s)) {
    experts.insert(family.kept.front().strategy.expert_parallel_degree);
    contexts.insert(family.kept.front().strategy.context_parallel_degree);
  }
  CHECK(experts == std::set<int>{1, 2, 4});
  CHECK(contexts == std::set<int>{1});
  s.model.experts = 0;
  s.training.seq_len = s.model.max_seq_len = 8192;
  for (const LayoutFamily& family : layout_families(s)) {
    contexts.insert(family.kept.front().strategy.context_parallel_degree);
  }
  CHECK(contexts == std::set<int>{1, 2});  // pieces of 4,096 tokens
}

TEST_CASE("search asks for recomputation only where nothing fits without, and sorts",
          "[core][plan]") {
  const std::vector<LayoutFamily> families = layout_families(eight_devices());
  for (const int threads : {1, 3}) {
    std::atomic<int> calls = 0;
    const auto run = [&](int most_kept, int most_recomputed) {
      const auto result = search(families,
                                 [&](const Scenario& s) {
                                   ++calls;
                                   return asked(s, most_kept, most_recomputed);
                                 },
                                 {.threads = threads, .progress = {}, .stop = {}});
      REQUIRE(result.ok());
      CHECK(result->asked == calls);
      CHECK(result->not_tried == 0);
      CHECK(std::is_sorted(result->found.begin(), result->found.end(),
                           [](const FoundLayout& a, const FoundLayout& b) {
                             return a.figures.throughput > b.figures.throughput;
                           }));
      calls = 0;
      return *result;
    };
    for (const FoundLayout& found : run(2, 16).found) {
      CHECK(found.scenario.activation_checkpoint.mode == ActivationCheckpoint::None);
      CHECK(found.scenario.microbatch_size() <= 2);
    }
    const SearchResult recomputed = run(0, 1);
    for (const FoundLayout& found : recomputed.found) {
      CHECK(found.scenario.activation_checkpoint.mode == ActivationCheckpoint::Full);
    }
    CHECK(recomputed.found.size() == families.size());
    CHECK(recomputed.found.front().scenario.strategy.tensor_parallel_degree == 4);
    CHECK(run(0, 0).found.empty());
    CHECK(run(0, 0).too_large == static_cast<int>(2 * families.size()));
  }
}

TEST_CASE("search stops when told to and passes an oracle's other errors on", "[core][plan]") {
  const std::vector<LayoutFamily> families = layout_families(eight_devices());
  std::size_t done = 0;
  const auto stopped = search(families, [](const Scenario& s) { return asked(s, 1, 1); },
                              {.threads = 1,
                               .progress = [&](const SearchProgress& p) { done = p.done; },
                               .stop = [&] { return done == 3; }});
  REQUIRE(stopped.ok());
  CHECK(stopped->not_tried == families.size() - 3);
  CHECK(stopped->found.size() == 3);
  const auto failed = search(families,
                             [](const Scenario&) -> Result<LayoutFigures> {
                               return Error{ErrorKind::Internal, "broken", std::nullopt};
                             },
                             {});
  REQUIRE_FALSE(failed.ok());
  CHECK(failed.error().kind == ErrorKind::Internal);
  CHECK_THAT(failed.error().message, ContainsSubstring("dp 8") && ContainsSubstring("broken"));
}

TEST_CASE("a search that is stopped within a family keeps what it has found", "[core][plan]") {
  const std::vector<LayoutFamily> families = layout_families(eight_devices());
  REQUIRE(families.front().kept.size() > 2);
  int asked_for = 0;
  std::size_t told = 0;
  const auto stopped = search(families,
                              [&](const Scenario& s) {
                                ++asked_for;
                                return asked(s, 16, 16);
                              },
                              {.threads = 1,
                               .progress =
                                   [&](const SearchProgress& p) {
                                     told += p.found->size();
                                     CHECK(p.done == 0);
                                   },
                               .stop = [&] { return asked_for == 2; }});
  REQUIRE(stopped.ok());
  CHECK(stopped->asked == 2);
  CHECK(stopped->found.size() == 2);
  CHECK(told == 2);
  CHECK(stopped->families == families.size());
  CHECK(stopped->not_tried == families.size());
}

TEST_CASE("a search that finds nothing says why", "[core][plan]") {
  const auto none = [](const Scenario& s) { return asked(s, 0, 0); };
  Scenario scenario = eight_devices();
  const auto message = [&](const SearchOptions& options) {
    const auto result = search(scenario, none, options);
    REQUIRE_FALSE(result.ok());
    CHECK(result.error().kind == ErrorKind::OutOfMemory);
    return result.error().message;
  };
  const std::string families = std::to_string(layout_families(scenario).size());
  CHECK_THAT(message({}), ContainsSubstring("none of") && !ContainsSubstring("not tried"));
  CHECK(message({.threads = 1, .progress = {}, .stop = [] { return true; }}) ==
        "none of 0 layouts fits; " + families + " of " + families + " families not tried");
  scenario.cluster.device.memory = Bytes{1000};
  CHECK_THAT(message({}), ContainsSubstring("the states alone exceed the memory"));
  scenario.model.architecture = Architecture::Synthetic;
  const auto synthetic = search(scenario, none, {});
  REQUIRE_FALSE(synthetic.ok());
  CHECK(synthetic.error().kind == ErrorKind::InvalidSpec);
}
