#include "core/analysis/breakdown.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <string>

#include "core/analysis/intervals.hpp"
#include "core/analysis/merge_stretches.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

/// What one rank does in the step's time, by kind of work: its own spans of this step, and those of
/// other steps that run beside them.
struct RankSpans {
  std::vector<Interval> compute, transfer, wait;
  struct Transfer {
    SimTime active{}, end{};
    std::int32_t kind = 0;  // StepGraph::kind_index
  };
  std::vector<Transfer> transfers;

  void clear() {
    for (std::vector<Interval>* list : {&compute, &transfer, &wait}) list->clear();
    transfers.clear();
  }
  void add(const StepGraph& step, const Span& s) {
    const SpanClass what = step.span_class(s);
    if (what == SpanClass::Compute) compute.push_back({s.active, s.end});
    if (what != SpanClass::Transfer) return;
    transfer.push_back({s.active, s.end});
    wait.push_back({s.begin, s.active});
    transfers.push_back({s.active, s.end, step.kind_index(s)});
  }
};

/// Attributes every instant of the exposed time of ranks to the transfer that runs then; of
/// several, to the one that began first.
class ExposedByKind {
 public:
  explicit ExposedByKind(const Trace& trace) : trace_(trace), times_(trace.names.size()) {}

  /// Of `ranks` ranks that have these transfers, which it sorts.
  void add(std::vector<RankSpans::Transfer>& transfers, const IntervalSet& exposed, int ranks) {
    merge_stretches(transfers, [](const RankSpans::Transfer& a, const RankSpans::Transfer& b) {
      return a.active < b.active;
    });
    auto hole = exposed.begin();
    SimTime reached = SimTime::min();
    for (const RankSpans::Transfer& transfer : transfers) {
      const SimTime begin = std::max(transfer.active, reached), end = transfer.end;
      if (end <= begin) continue;
      reached = end;
      while (hole != exposed.end() && hole->end <= begin) ++hole;
      std::optional<SimTime>& time = times_[transfer.kind];
      if (!time) time = SimTime{};
      for (auto h = hole; h != exposed.end() && h->begin < end; ++h) {
        *time += ranks * (std::min(end, h->end) - std::max(begin, h->begin));
      }
    }
  }

  std::map<std::string, SimTime> times() const {
    std::map<std::string, SimTime> by_name;
    for (const std::int32_t kind : times_.ids()) {
      if (times_[kind]) by_name[trace_.names[kind]] += *times_[kind];
    }
    return by_name;
  }

 private:
  const Trace& trace_;
  IndexVector<std::int32_t, std::optional<SimTime>> times_;  // by kind; none: no transfer took time
};

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
  const auto within = [&](const std::vector<Interval>& intervals) {
    IntervalSet all = union_of(intervals);
    const bool inside =
        all.empty() || (all.front().begin >= step.begin() && all.back().end <= step.end());
    return inside ? all : intersection(all, whole);
  };
  ExposedByKind exposed_by_kind(step.trace());
  RankSpans work;
  for (const Rank rank : step.own_ranks()) {
    work.clear();
    const StepGraph::Range range = step.of_rank(rank);
    for (SpanIndex i = range.first; i < range.last; ++i) work.add(step, step[i]);
    for (const Span* s : step.of_other_steps(rank)) work.add(step, *s);
    const IntervalSet busy = within(work.compute);
    const IntervalSet moving = within(work.transfer);
    const IntervalSet exposed = difference(moving, busy);
    const IntervalSet waiting = difference(difference(within(work.wait), busy), moving);
    RankBreakdown& r = result.ranks[rank];
    r.communication = length(exposed);
    r.overlapping = length(moving) - r.communication;
    r.computation = length(busy) - r.overlapping;
    r.waiting = length(waiting);
    r.other = step.makespan() - r.computation - r.overlapping - r.communication - r.waiting;
    exposed_by_kind.add(work.transfers, exposed, copies[rank]);
  }
  result.exposed_by_kind = exposed_by_kind.times();
  for (std::size_t rank = 0; rank < same_as.size(); ++rank) {
    result.ranks[rank] = result.ranks[same_as[rank]];
  }
  return result;
}

}  // namespace lockstep
