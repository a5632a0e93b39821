#include "core/analysis/rank_work.hpp"

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>

#include "core/analysis/merge_stretches.hpp"

namespace lockstep {
namespace {

/// The part of a set that lies in the time of the step.
IntervalSet within(const StepGraph& step, IntervalSet set) {
  if (set.empty() || (set.front().begin >= step.begin() && set.back().end <= step.end())) {
    return set;
  }
  return intersection(set, union_of({{step.begin(), step.end()}}));
}

}  // namespace

RankWork work_of(const StepGraph& step, Rank rank) {
  RankWork result;
  result.rank = rank;
  std::vector<Interval> waits;
  const StepGraph::Range range = step.of_rank(rank);
  const std::span<const std::size_t> beside = step.of_other_steps(rank);
  const std::size_t most = to_size(range.last - range.first) + beside.size();
  result.compute.reserve(most);
  result.transfers.reserve(most);
  waits.reserve(most);
  const auto add = [&](const Span& s, SpanIndex i) {
    const Busy work{s.active, s.end, i, step.kind_index(s)};
    const SpanClass what = step.span_class(s);
    if (what == SpanClass::Compute) result.compute.push_back(work);
    if (what != SpanClass::Transfer) return;
    result.transfers.push_back(work);
    waits.push_back({s.begin, s.active});
  };
  for (SpanIndex i = range.first; i < range.last; ++i) add(step[i], i);
  if (!result.compute.empty()) {
    Interval stage{SimTime::max(), SimTime::min()};
    for (const Busy& w : result.compute) {
      stage = {std::min(stage.begin, w.begin), std::max(stage.end, w.end)};
    }
    result.stage_span = stage.end - stage.begin;
  }
  for (const std::size_t other : beside) add(step.trace().spans[other], -1);
  const auto by_begin = [](const Busy& a, const Busy& b) { return a.begin < b.begin; };
  merge_stretches(result.compute, by_begin);
  merge_stretches(result.transfers, by_begin);
  result.computing = within(step, union_of_sorted(result.compute));
  result.transferring = within(step, union_of_sorted(result.transfers));
  result.waiting = within(step, union_of(std::move(waits)));
  return result;
}

}  // namespace lockstep
