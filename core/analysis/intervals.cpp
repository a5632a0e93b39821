#include "core/analysis/intervals.hpp"

#include <algorithm>

namespace lockstep {

IntervalSet union_of(std::vector<Interval> intervals) {
  const auto earlier = [](const Interval& a, const Interval& b) { return a.begin < b.begin; };
  if (!std::is_sorted(intervals.begin(), intervals.end(), earlier)) {
    std::sort(intervals.begin(), intervals.end(), earlier);
  }
  IntervalSet result;
  for (const Interval& i : intervals) {
    if (i.end <= i.begin) continue;
    if (!result.empty() && i.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, i.end);
    } else {
      result.push_back(i);
    }
  }
  return result;
}

IntervalSet difference(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
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
