// Selection: what the spans in a window of time add up to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// Of the running times (active to end) of whole spans, also of those that stick out of the window.
/// Percentiles are nearest-rank: the smallest that at least that share of the spans does not
/// exceed.
struct SpanStatistics {
  std::int64_t count = 0;
  SimTime total{}, least{}, most{};
  SimTime p50{}, p90{}, p99{};
  SimTime waiting{};  // sum of begin to active
  SimTime inside{};   // the part of `total` that lies in the window
  Seconds mean() const;
  bool operator==(const SpanStatistics&) const = default;
};

struct Selection {
  SpanStatistics all;
  std::map<std::string, SpanStatistics> by_kind;  // of TraceOp
  std::map<Rank, SpanStatistics> by_rank;         // ranks that have spans of their own
};

/// Spans that run at some time in [from, to), or begin and end in it at one time; of these, those
/// that are `wanted` (none given: all). Linear in the spans of the step.
Selection select(const StepGraph& step, SimTime from, SimTime to,
                 const std::function<bool(SpanIndex)>& wanted = {});

}  // namespace lockstep
