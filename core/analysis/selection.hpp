// Selection: what the spans in a window of time add up to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// Statistics of running times (active to end) of spans. A span counts whole, even where it extends
/// beyond the window. Percentiles are nearest-rank: the smallest running time that at least that
/// share of the spans does not exceed.
struct SpanStatistics {
  std::int64_t count = 0;
  SimTime total{}, least{}, most{};
  SimTime p50{}, p90{}, p99{};
  SimTime waiting{};  // sum of begin..active
  SimTime inside{};   // the part of `total` that lies in the window
  Seconds mean() const;
  bool operator==(const SpanStatistics&) const = default;
};

struct Selection {
  SpanStatistics all;
  std::map<std::string, SpanStatistics> by_kind;  // by TraceOp::kind
  std::map<Rank, SpanStatistics> by_rank;         // only ranks with spans of their own
};

/// Statistics of the `wanted` spans (all, if no function is given) that run at some time in [from,
/// to); spans of zero length that lie in it count too. Takes time linear in the spans of the step.
Selection select(const StepGraph& step, SimTime from, SimTime to,
                 const std::function<bool(SpanIndex)>& wanted = {});

}  // namespace lockstep
