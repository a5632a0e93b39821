// Interval sets on the trace's clock: union, difference, intersection, length.
#pragma once

#include <algorithm>
#include <vector>

#include "core/base/units.hpp"

namespace lockstep {

struct Interval {
  SimTime begin{}, end{};  // half open
  bool operator==(const Interval&) const = default;
};

/// Intervals in ascending order that neither overlap nor touch; none is empty.
using IntervalSet = std::vector<Interval>;

/// The points covered by any of `intervals`, which may come in any order, overlap or be empty.
IntervalSet union_of(std::vector<Interval> intervals);
/// The same for what has begin and end, and comes in the order of its begin.
template <class T>
IntervalSet union_of_sorted(const std::vector<T>& intervals) {
  IntervalSet result;
  for (const T& i : intervals) {
    if (i.end <= i.begin) continue;
    if (!result.empty() && i.begin <= result.back().end) {
      result.back().end = std::max(result.back().end, i.end);
    } else {
      result.push_back({i.begin, i.end});
    }
  }
  return result;
}
IntervalSet difference(const IntervalSet& a, const IntervalSet& b);    // in a, not in b
IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);  // in both
SimTime length(const IntervalSet& set);

}  // namespace lockstep
