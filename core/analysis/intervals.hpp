// Interval sets on the trace's clock: union, difference, intersection, length.
#pragma once

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
IntervalSet difference(const IntervalSet& a, const IntervalSet& b);    // in a, not in b
IntervalSet intersection(const IntervalSet& a, const IntervalSet& b);  // in both
SimTime length(const IntervalSet& set);

}  // namespace lockstep
