// StepIntervals: divides the time of a trace among its steps, which may overlap.
#pragma once

#include <cstdint>
#include <vector>

#include "core/analysis/intervals.hpp"
#include "core/trace/op_class.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// A device runs behind its host, and ranks behind each other, so that a step's first ops often run
/// beside the last ones of the step before. Every instant belongs to one step all the same:
///
/// - A step's window reaches from the first begin to the last end of its spans, over all ranks.
///   Where any device works in the trace, what hosts do counts nowhere.
/// - A step's interval is the part of its window in which no step that began earlier is still
///   under way (of two that begin at once, the one with the lower number). It is what the step adds
///   to the run.
///
/// Intervals are disjoint, and their lengths add up to what the windows cover together. A window
/// that lies within earlier ones leaves an empty interval.
class StepIntervals {
 public:
  /// Linear in the spans.
  explicit StepIntervals(const Trace& trace);

  struct Step {
    std::int32_t number = 0;          // Span::step
    std::size_t first = 0, last = 0;  // into Trace::spans, half open
    bool counts = false;  // false: none of its spans counts; window and interval are empty
    Interval window, interval;
  };
  const std::vector<Step>& steps() const { return steps_; }  // by number
  const Step* find(std::int32_t number) const;               // null: the step has no spans
  std::size_t counted() const;  // the number of steps with a span that counts
  /// Whether any device works in the trace.
  bool devices_work() const { return devices_work_; }

 private:
  std::vector<Step> steps_;
  bool devices_work_ = false;
};

}  // namespace lockstep
