#include "core/analysis/intervals.hpp"

#include <algorithm>

#include "core/analysis/merge_stretches.hpp"

namespace lockstep {

IntervalSet union_of(std::vector<Interval> intervals) {
  merge_stretches(intervals,
                  [](const Interval& a, const Interval& b) { return a.begin < b.begin; });
  return union_of_sorted(intervals);
}

IntervalSet difference(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  result.reserve(a.size());
  auto hole = b.begin();
  for (const Interval& i : a) {
    while (hole != b.end() && hole->end <= i.begin) ++hole;
    SimTime from = i.begin;
    for (auto h = hole; h != b.end() && h->begin < i.end; ++h) {
      if (from < h->begin) result.push_back({from, h->begin});
      from = h->end;
    }
    if (from < i.end) result.push_back({from, i.end});
  }
  return result;
}

IntervalSet intersection(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  for (auto x = a.begin(), y = b.begin(); x != a.end() && y != b.end();) {
    const Interval both{std::max(x->begin, y->begin), std::min(x->end, y->end)};
    if (both.begin < both.end) result.push_back(both);
    x->end < y->end ? static_cast<void>(++x) : static_cast<void>(++y);
  }
  return result;
}

SimTime length(const IntervalSet& set) {
  SimTime total{};
  for (const Interval& i : set) total += i.end - i.begin;
  return total;
}

}  // namespace lockstep
