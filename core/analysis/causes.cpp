#include "core/analysis/causes.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <optional>
#include <utility>

#include "core/analysis/critical_path.hpp"
#include "core/analysis/rank_analyses.hpp"
#include "core/analysis/stragglers.hpp"
#include "core/base/thread_team.hpp"

namespace lockstep {
namespace {

class Adder {
 public:
  explicit Adder(std::size_t world) {
    result_.ranks.resize(world);
    causes_.ranks.resize(world);
  }

  /// Without `list`, the bubbles that it leaves in `step` have none.
  void add(StepAnalysis& step, std::int32_t number, bool list, double share) {
    share_ = share;
    Breakdown breakdown;
    Stragglers stragglers;
    PathSummary path;
    const std::array<std::function<void()>, 3> analyses = {
        [&] {
          RankAnalyses ranks = analyze_ranks(step.graph, list);
          breakdown = std::move(ranks.breakdown);
          step.bubbles = std::move(ranks.bubbles);
        },
        [&] { stragglers = sum_stragglers(step.graph); },
        [&] { path = summarize(step.graph, step.path = critical_path(step.graph)); },
    };  // the longest first
    ThreadTeam team(threads_for(step.graph.spans().size()));
    team.each(analyses.size(), [&](std::size_t i) { analyses[i](); });
    if (step.graph.last_to_end() >= 0) {
      result_.steps.push_back({number, step.graph.makespan(), share});
      result_.makespan += time(step.graph.makespan());
    }
    add_breakdown(breakdown);
    add_bubbles(step.bubbles);
    add_stragglers(stragglers);
    for (const auto& [kind, share] : path.by_kind) {
      causes_.critical_path[kind] += seconds(share.time);
    }
    causes_.critical_path_crossings += share_ * static_cast<double>(path.crossings);
  }

  AnalyzedSteps result() {
    mean(1.0 / result_.count());
    result_.causes = std::move(causes_);
    return std::move(result_);
  }

 private:
  void mean(double per_step) {
    const double world = static_cast<double>(std::max<std::size_t>(causes_.ranks.size(), 1));
    const auto scale = [](Seconds& s, double factor) { s = factor * s; };
    for (RankCauses& r : causes_.ranks) {
      for (Seconds* s : {&r.computation, &r.overlapping, &r.communication, &r.waiting, &r.other,
                         &r.caused_wait, &r.own_wait}) {
        scale(*s, per_step);
      }
      for (Seconds& s : r.bubbles) scale(s, per_step);
      r.last_arrivals *= per_step;
    }
    for (Seconds& s : causes_.bubbles) scale(s, per_step / world);
    for (auto& [kind, s] : causes_.exposed_comm) scale(s, per_step / world);
    for (auto& [kind, s] : causes_.critical_path) scale(s, per_step);
    causes_.critical_path_crossings *= per_step;
  }

  Seconds seconds(SimTime time) const { return share_ * to_seconds(time); }
  SimTime time(SimTime t) const {
    return share_ == 1 ? t : SimTime{std::llround(share_ * static_cast<double>(t.count()))};
  }
  void add_breakdown(const Breakdown& breakdown) {
    for (std::size_t r = 0; r < breakdown.ranks.size(); ++r) {
      const RankBreakdown& from = breakdown.ranks[r];
      RankTimes& times = result_.ranks[r];
      times.compute += time(from.compute());
      times.exposed_comm += time(from.communication);
      times.idle += time(from.idle());
      times.stage_span += time(breakdown.stage_spans[r]);
      RankCauses& to = causes_.ranks[r];
      to.computation += seconds(from.computation);
      to.overlapping += seconds(from.overlapping);
      to.communication += seconds(from.communication);
      to.waiting += seconds(from.waiting);
      to.other += seconds(from.other);
    }
    for (const auto& [kind, time] : breakdown.exposed_by_kind) {
      causes_.exposed_comm[kind] += seconds(time);
    }
  }
  void add_bubbles(const Bubbles& bubbles) {
    for (std::size_t c = 0; c < bubbles.total.size(); ++c) {
      causes_.bubbles[c] += seconds(bubbles.total[c]);
      for (std::size_t r = 0; r < bubbles.by_rank.size(); ++r) {
        causes_.ranks[r].bubbles[c] += seconds(bubbles.by_rank[r][c]);
      }
    }
  }
  void add_stragglers(const Stragglers& stragglers) {
    for (std::size_t r = 0; r < stragglers.ranks.size(); ++r) {
      const RankArrivals& from = stragglers.ranks[r];
      RankCauses& to = causes_.ranks[r];
      to.last_arrivals += share_ * static_cast<double>(from.last);
      to.caused_wait += seconds(from.caused);
      to.own_wait += seconds(from.waited);
    }
  }

  double share_ = 1;  // of the step that is added
  AnalyzedSteps result_;
  Causes causes_;  // sums over steps, and over ranks too where the result is a mean over ranks
};

}  // namespace

AnalyzedSteps analyze_steps(const Trace& trace, const Program* program, const StepShares& shares,
                            std::vector<StepAnalysis>* kept) {
  const auto intervals = program != nullptr ? std::nullopt : std::optional<StepIntervals>(trace);
  Adder adder(trace.same_as.size());
  for (const std::int32_t step : traced_steps(trace)) {
    StepGraph graph =
        intervals ? StepGraph(trace, step, nullptr, *intervals) : StepGraph(trace, step, program);
    const StepAnalysis::SpanId first = graph.spans().first();
    StepAnalysis found{first, std::move(graph), {}, {}};
    adder.add(found, step, kept != nullptr, shares.of(step));
    if (kept != nullptr) kept->push_back(std::move(found));
  }
  return adder.result();
}

}  // namespace lockstep
