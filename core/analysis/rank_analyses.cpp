#include "core/analysis/rank_analyses.hpp"

#include <algorithm>
#include <cstddef>

#include "core/analysis/rank_work.hpp"
#include "core/base/thread_team.hpp"

namespace lockstep {
namespace {

struct OfRank {
  std::vector<ExposedKind> exposed;
  std::vector<Bubble> bubbles;
};

}  // namespace

RankAnalyses analyze_ranks(const StepGraph& step, bool list) {
  const Trace& trace = step.trace();
  RankAnalyses result;
  Breakdown& breakdown = result.breakdown;
  Bubbles& bubbles = result.bubbles;
  const std::size_t world = trace.same_as.size();
  breakdown.ranks.resize(world);
  breakdown.stage_spans.resize(world);
  bubbles.by_rank.resize(world);
  bubbles.makespan = bubbles.least_idle = step.makespan();
  const std::vector<Rank> own = step.own_ranks();
  std::vector<OfRank> found(own.size());
  ThreadTeam team(threads_for(to_size(step.size())));
  team.each(own.size(), [&](std::size_t i) {
    const RankWork work = work_of(step, own[i]);
    breakdown.ranks[own[i]] = break_down(step, work, found[i].exposed);
    breakdown.stage_spans[own[i]] = work.stage_span;
    bubbles.by_rank[own[i]] = find_bubbles(step, work, list ? &found[i].bubbles : nullptr);
  });
  const IndexVector<Rank, int> copies = stands_for(trace);
  for (std::size_t i = 0; i < own.size(); ++i) {
    for (const auto& [kind, time] : found[i].exposed) {
      breakdown.exposed_by_kind[trace.names[kind]] += copies[own[i]] * time;
    }
    bubbles.list.insert(bubbles.list.end(), found[i].bubbles.begin(), found[i].bubbles.end());
    found[i] = {};
  }
  for (const Rank rank : trace.same_as.ids()) {
    const Rank original = trace.same_as[rank];
    breakdown.ranks[rank] = breakdown.ranks[original];
    breakdown.stage_spans[rank] = breakdown.stage_spans[original];
    bubbles.by_rank[rank] = bubbles.by_rank[original];
    SimTime idle{};
    for (const BubbleCause cause : TimeByCause::ids()) {
      bubbles.total[cause] += bubbles.by_rank[rank][cause];
      idle += bubbles.by_rank[rank][cause];
    }
    bubbles.least_idle = std::min(bubbles.least_idle, idle);
  }
  return result;
}

}  // namespace lockstep
