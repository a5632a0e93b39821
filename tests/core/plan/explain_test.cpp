#include "core/plan/explain.hpp"

#include "core/plan/rules_of_thumb.hpp"
#include "core/plan/sensitivity.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// A small model on two nodes, whose devices hold some of the layouts.
Scenario two_nodes() {
  const LoadedScenario loaded = parse_scenario(
      "[model]\narchitecture = \"llama\"\nname = \"m\"\nlayers = 8\nhidden = 2048\nheads = 16\n"
      "vocab = 32000\nmax_seq_len = 2048\n[training]\nseq_len = 2048\nlocal_batch_size = 1\n"
      "global_batch_size = 32\nmixed_precision_param = \"bfloat16\"\n[cluster]\n"
      "preset = \"a100-80\"\nnodes = 2\ndevices_per_node = 4\n[cluster.device]\nmemory_gb = 14\n",
      "small", {});
  if (!loaded.ok()) FAIL(loaded.errors.front().message);
  return loaded.points.front().scenario;
}

SpaceResult search(const SpaceOptions& options = {}) {
  static const Scenario task = two_nodes();
  Result<SpaceResult> result = search_space(task, simulated_layout, simulated_probe, options);
  if (!result) FAIL(to_string(result.error()));
  return std::move(*result);
}

}  // namespace

TEST_CASE("a layout loses for the part of a step in which it takes most more", "[core][plan]") {
  EstimatedLayout best, other;
  best.bound = {Seconds{10}, Seconds{9}, Seconds{1}, {}};
  best.estimate.step_time = Seconds{10};
  other = best;
  CHECK(why_slower(best, other).empty());
  other.bound.bubble = Seconds{3};
  other.point.pipeline = 4;
  other.estimate.step_time = Seconds{12};
  CHECK(why_slower(best, other) == "+20.0 % bubble: pp 4 instead of 1");
  other.point.tensor = 8;
  other.estimate.step_time = Seconds{15};  // 3 s of which no bound knows
  CHECK(why_slower(best, other) == "+30.0 % exposed communication: tp 8 instead of 1");
  other.bound.compute = Seconds{19};
  other.point.recomputation = Recomputation::Blocks;
  other.estimate.step_time = Seconds{22};
  CHECK(why_slower(best, other) == "+100.0 % computation: blocks recomputed");
}

TEST_CASE("every family is listed once, with a layout or with why it has none", "[core][plan]") {
  const SpaceResult result = search();
  REQUIRE(!result.families.empty());
  std::size_t layouts = 0;
  for (const LostFamily& lost : result.lost) {
    for (const EstimatedLayout& e : result.families) CHECK(family_of(e.point) != lost.name);
    CHECK(family_of(lost.point) == lost.name);
    CHECK(!why_lost(lost, result.families.front(), result.capacity).empty());
    if (lost.bound.needed > result.capacity) {
      CHECK_THAT(why_lost(lost, result.families.front(), result.capacity),
                 ContainsSubstring("needs "));
    }
    layouts += lost.layouts;
  }
  CHECK(layouts < result.counts.layouts);
}

TEST_CASE("a larger lead is more certain, and none is certain at all", "[core][plan]") {
  CHECK(certainty(Seconds{1}, Seconds{1}) == 0.5);
  CHECK(certainty(Seconds{1}, Seconds{1 + kOrderDeviation}) > 0.8);
  CHECK(certainty(Seconds{1}, Seconds{1.01}) < certainty(Seconds{1}, Seconds{1.1}));
  CHECK(certainty(Seconds{1}, Seconds{2}) < 1);
}

TEST_CASE("the objective decides which layout is the best", "[core][plan]") {
  SpaceOptions options;
  options.settings = false;  // of the layouts alone
  options.exhaustive = true;
  const SpaceResult all = search(options);
  Bytes least = all.found.front().figures.memory.needed;
  for (const FoundLayout& f : all.found) least = std::min(least, f.figures.memory.needed);
  options.exhaustive = false;
  const SpaceResult fast = search(options);
  CHECK(fast.found.front().figures.step_time == all.found.front().figures.step_time);
  options.objective = Objective::Memory;
  options.finalists = 8;
  const SpaceResult small = search(options);
  CHECK(small.found.front().figures.memory.needed == least);
  CHECK(fast.found.front().figures.memory.needed > least);
}

TEST_CASE("of a family that is refused, the reason is the refusal", "[core][plan]") {
  Scenario task = two_nodes();
  task.cluster.device.memory = {};
  task.training.global_batch_size = 8;  // DualPipeV needs twice as many microbatches as ranks
  const Result<SpaceResult> result =
      search_space(task, simulated_layout, simulated_probe, SpaceOptions());
  if (!result) FAIL(to_string(result.error()));
  std::size_t refused = 0;
  for (const LostFamily& lost : result->lost) {
    const std::string why = why_lost(lost, result->estimated.front(), result->capacity);
    INFO(lost.name << ": " << why);
    CHECK(why.find("none fits") == std::string::npos);  // every device holds everything
    refused += why.find("refused: ") == 0 && why.size() > std::string("refused: ").size();
  }
  CHECK(refused > 0);
}

TEST_CASE("what the choice depends on is as an estimate of the changed cluster says",
          "[core][plan]") {
  const SpaceResult result = search();
  const Result<SensitivityReport> report = sensitivity(result, simulated_probe);
  if (!report) FAIL(to_string(report.error()));
  int bandwidths = 0;
  for (const Sensitivity& s : report->changes) {
    INFO(s.change);
    CHECK(s.by >= 0);                // the winner of before is no faster than the winner
    if (s.winner.empty()) continue;  // none of the layouts can have half the batch
    CHECK(s.other == (s.winner != layout_name(result.families.front().scenario)));
    const bool half = s.change.find("half the bandwidth") == 0;
    bandwidths += half;
    if (half || s.change.find("slower") != std::string::npos) CHECK(s.slower >= 0);
  }
  CHECK(bandwidths == 2);
  // Where one layout overtakes another, both take as long, and so they do in full.
  for (const TippingPoint& t : report->tipping) {
    INFO(t.what << " × " << t.factor << ": " << t.winner);
    const auto time = [&](const Scenario& layout) {
      Scenario s = layout;
      LinkSpec& link =
          t.what.find("between") != std::string::npos ? s.cluster.inter_node : s.cluster.intra_node;
      link.bandwidth = BytesPerSecond{link.bandwidth.v * t.factor};
      const Result<Probe> full = simulated_probe(s);
      if (!full) FAIL(to_string(full.error()));
      return full->step.v;
    };
    for (const EstimatedLayout& e : result.estimated) {
      if (layout_name(e.scenario) != t.winner) continue;
      CHECK(time(e.scenario) == Approx(time(result.found.front().scenario)).epsilon(0.02));
    }
  }
}

TEST_CASE("with a tenth less memory the winner is one that a search finds there", "[core][plan]") {
  SpaceOptions options;
  options.settings = false;
  const auto needed = static_cast<double>(search(options).found.front().figures.memory.needed.v);
  options.most_memory = Bytes{static_cast<std::int64_t>(needed * 1.01)};  // the first just fits
  const Result<SensitivityReport> report = sensitivity(search(options), simulated_probe);
  if (!report) FAIL(to_string(report.error()));
  options.most_memory = Bytes{static_cast<std::int64_t>(needed * 1.01 * 0.9)};
  const FoundLayout best = search(options).found.front();
  for (const Sensitivity& s : report->changes) {
    if (s.change != "10 % less memory") continue;
    CHECK(!s.fits);
    CHECK(s.winner == layout_name(best.scenario));
  }
}

TEST_CASE("a rule's strategy names layouts of its shape alone", "[core][plan]") {
  RuleQuestion q{70e9, 80, 64, Interconnect::NvLink};
  LayoutPoint point;
  point.shard = 8;
  point.tensor = 8;
  point.zero = 3;
  for (const RuleAnswer& answer : rules_of_thumb(q)) {
    INFO(answer.rule << ": " << answer.strategy);
    const bool tensor = answer.strategy.find("TP") != std::string::npos;
    const bool pipeline = answer.strategy.find("PP") != std::string::npos ||
                          answer.strategy.find("3D") != std::string::npos;
    CHECK(answer.shape.tensor == (tensor || pipeline));
    CHECK(answer.shape.pipeline == pipeline);
    CHECK(answer.shape.has(point) == (tensor && !pipeline));
  }
  CHECK(!StrategyShape{}.has(point));
  CHECK(StrategyShape{}.has(LayoutPoint{}));
}
