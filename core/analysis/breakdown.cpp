#include "core/analysis/breakdown.hpp"

#include <algorithm>
#include <utility>

#include "core/analysis/intervals.hpp"
#include "core/base/at.hpp"

namespace lockstep {
namespace {

/// Gives every point of `exposed` to the transfer that runs there and began first.
void attribute(const StepGraph& step, std::vector<SpanIndex> transfers, const IntervalSet& exposed,
               int ranks, std::map<std::string, SimTime>& by_kind) {
  std::stable_sort(transfers.begin(), transfers.end(),
                   [&](SpanIndex a, SpanIndex b) { return step[a].active < step[b].active; });
  auto hole = exposed.begin();
  SimTime reached = SimTime::min();
  for (const SpanIndex i : transfers) {
    const SimTime begin = std::max(step[i].active, reached), end = step[i].end;
    if (end <= begin) continue;
    reached = end;
    while (hole != exposed.end() && hole->end <= begin) ++hole;
    SimTime& time = by_kind[step.kind(i)];
    for (auto h = hole; h != exposed.end() && h->begin < end; ++h) {
      time += ranks * (std::min(end, h->end) - std::max(begin, h->begin));
    }
  }
}

}  // namespace

double RankBreakdown::overlap() const {
  const SimTime all = transfers();
  if (all <= SimTime{}) return 0;
  return static_cast<double>(overlapping.count()) / static_cast<double>(all.count());
}

Breakdown break_down(const StepGraph& step) {
  Breakdown result;
  const std::vector<Rank>& same_as = step.trace().same_as;
  const std::vector<int> copies = stands_for(step.trace());
  result.ranks.resize(same_as.size());
  for (const Rank rank : step.ranks()) {
    std::vector<Interval> compute, transfer, wait;
    std::vector<SpanIndex> transfers;
    const StepGraph::Range range = step.of_rank(rank);
    for (SpanIndex i = range.first; i < range.last; ++i) {
      const Span& s = step[i];
      const SpanClass what = step.span_class(i);
      if (what == SpanClass::Compute) compute.push_back({s.active, s.end});
      if (what != SpanClass::Transfer) continue;
      transfer.push_back({s.active, s.end});
      wait.push_back({s.begin, s.active});
      transfers.push_back(i);
    }
    const IntervalSet busy = union_of(std::move(compute));
    const IntervalSet moving = union_of(std::move(transfer));
    const IntervalSet exposed = difference(moving, busy);
    const IntervalSet waiting = difference(difference(union_of(std::move(wait)), busy), moving);
    RankBreakdown& r = result.ranks[at(rank)];
    r.communication = length(exposed);
    r.overlapping = length(moving) - r.communication;
    r.computation = length(busy) - r.overlapping;
    r.waiting = length(waiting);
    r.other = step.makespan() - r.computation - r.overlapping - r.communication - r.waiting;
    attribute(step, std::move(transfers), exposed, copies[at(rank)], result.exposed_by_kind);
  }
  for (std::size_t rank = 0; rank < same_as.size(); ++rank) {
    result.ranks[rank] = result.ranks[at(same_as[rank])];
  }
  return result;
}

}  // namespace lockstep
