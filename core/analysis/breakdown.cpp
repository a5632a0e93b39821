#include "core/analysis/breakdown.hpp"

#include <algorithm>

#include "core/analysis/intervals.hpp"
#include "core/analysis/rank_analyses.hpp"

namespace lockstep {
namespace {

/// Attributes every instant of the exposed time to the transfer that runs then; of several, to the
/// one that began first.
void add_exposed(const std::vector<Busy>& transfers, const IntervalSet& exposed,
                 std::vector<ExposedKind>& by_kind) {
  auto hole = exposed.begin();
  SimTime reached = SimTime::min();
  for (const Busy& transfer : transfers) {
    const SimTime begin = std::max(transfer.begin, reached), end = transfer.end;
    if (end <= begin) continue;
    reached = end;
    while (hole != exposed.end() && hole->end <= begin) ++hole;
    auto of_kind = std::find_if(by_kind.begin(), by_kind.end(), [&](const ExposedKind& known) {
      return known.kind == transfer.kind;
    });
    if (of_kind == by_kind.end()) of_kind = by_kind.insert(of_kind, {transfer.kind, {}});
    for (auto h = hole; h != exposed.end() && h->begin < end; ++h) {
      of_kind->time += std::min(end, h->end) - std::max(begin, h->begin);
    }
  }
}

}  // namespace

double RankBreakdown::overlap() const {
  const SimTime all = transfers();
  if (all <= SimTime{}) return 0;
  return static_cast<double>(overlapping.count()) / static_cast<double>(all.count());
}

RankBreakdown break_down(const StepGraph& step, const RankWork& work,
                         std::vector<ExposedKind>& exposed_by_kind) {
  const IntervalSet& busy = work.computing;
  const IntervalSet& moving = work.transferring;
  const IntervalSet exposed = difference(moving, busy);
  RankBreakdown r;
  r.communication = length(exposed);
  r.overlapping = length(moving) - r.communication;
  r.computation = length(busy) - r.overlapping;
  r.waiting = length(difference(difference(work.waiting, busy), moving));
  r.other = step.makespan() - r.computation - r.overlapping - r.communication - r.waiting;
  add_exposed(work.transfers, exposed, exposed_by_kind);
  return r;
}

Breakdown break_down(const StepGraph& step) { return analyze_ranks(step, false).breakdown; }

}  // namespace lockstep
