// RankWork: what one rank does in the time of a step. Analyses of single ranks share it, so that
// they look at a rank's spans once, and at the same time.
#pragma once

#include <cstdint>
#include <vector>

#include "core/analysis/intervals.hpp"
#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// A time in which a rank computes or transfers: active..end of a span.
struct Busy {
  SimTime begin{}, end{};
  SpanIndex span = -1;    // -1: of another step, which runs beside this one
  std::int32_t kind = 0;  // into Trace::names
};

struct RankWork {
  Rank rank = -1;
  std::vector<Busy> compute, transfers;  // of this step and of others beside it, sorted by begin
  // The same as sets, within the time of the step.
  IntervalSet computing, transferring;
  IntervalSet waiting;   // transfers wait for their peers (begin..active), whatever else goes on
  SimTime stage_span{};  // from the first begin to the last end of this step's compute spans
};

/// Takes n log s time in the spans of the rank and its streams.
RankWork work_of(const StepGraph& step, Rank rank);

}  // namespace lockstep
