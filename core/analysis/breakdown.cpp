#include "core/analysis/breakdown.hpp"

#include <algorithm>
#include <utility>

#include "core/analysis/intervals.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// What one rank does in the step's time, by kind of work: its own spans of this step, and those of
/// other steps that run beside them.
struct RankSpans {
  std::vector<Interval> compute, transfer, wait;
  std::vector<const Span*> transfers;

  void add(const StepGraph& step, const Span& s) {
    const SpanClass what = step.span_class(s);
    if (what == SpanClass::Compute) compute.push_back({s.active, s.end});
    if (what != SpanClass::Transfer) return;
    transfer.push_back({s.active, s.end});
    wait.push_back({s.begin, s.active});
    transfers.push_back(&s);
  }
};

/// Attributes every instant of `exposed` to the transfer that runs then; of several, to the one
/// that began first.
void attribute(const StepGraph& step, std::vector<const Span*> transfers,
               const IntervalSet& exposed, int ranks, std::map<std::string, SimTime>& by_kind) {
  std::stable_sort(transfers.begin(), transfers.end(),
                   [](const Span* a, const Span* b) { return a->active < b->active; });
  auto hole = exposed.begin();
  SimTime reached = SimTime::min();
  const std::string* kind = nullptr;  // of the transfer before, whose time need not be looked up
  SimTime* time = nullptr;
  for (const Span* transfer : transfers) {
    const SimTime begin = std::max(transfer->active, reached), end = transfer->end;
    if (end <= begin) continue;
    reached = end;
    while (hole != exposed.end() && hole->end <= begin) ++hole;
    if (const std::string& own = step.kind(*transfer); kind != &own) {
      kind = &own;
      time = &by_kind[own];
    }
    for (auto h = hole; h != exposed.end() && h->begin < end; ++h) {
      *time += ranks * (std::min(end, h->end) - std::max(begin, h->begin));
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
  const IndexVector<Rank, Rank>& same_as = step.trace().same_as;
  const IndexVector<Rank, int> copies = stands_for(step.trace());
  result.ranks.resize(same_as.size());
  const IntervalSet whole = union_of({{step.begin(), step.end()}});
  const auto within = [&](std::vector<Interval> intervals) {
    return intersection(union_of(std::move(intervals)), whole);
  };
  for (const Rank rank : step.own_ranks()) {
    RankSpans work;
    const StepGraph::Range range = step.of_rank(rank);
    for (SpanIndex i = range.first; i < range.last; ++i) work.add(step, step[i]);
    for (const Span* s : step.of_other_steps(rank)) work.add(step, *s);
    const IntervalSet busy = within(std::move(work.compute));
    const IntervalSet moving = within(std::move(work.transfer));
    const IntervalSet exposed = difference(moving, busy);
    const IntervalSet waiting = difference(difference(within(std::move(work.wait)), busy), moving);
    RankBreakdown& r = result.ranks[rank];
    r.communication = length(exposed);
    r.overlapping = length(moving) - r.communication;
    r.computation = length(busy) - r.overlapping;
    r.waiting = length(waiting);
    r.other = step.makespan() - r.computation - r.overlapping - r.communication - r.waiting;
    attribute(step, std::move(work.transfers), exposed, copies[rank], result.exposed_by_kind);
  }
  for (std::size_t rank = 0; rank < same_as.size(); ++rank) {
    result.ranks[rank] = result.ranks[same_as[rank]];
  }
  return result;
}

}  // namespace lockstep
