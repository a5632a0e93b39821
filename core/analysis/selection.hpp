// Selection: what the spans in a window of time add up to.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <span>
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
  SimTime self{};     // the part of `total` that is not nested in others (self_time.hpp)
  Seconds mean() const;
  bool operator==(const SpanStatistics&) const = default;
};

/// Collects the times of spans in the window [from, to).
class StatisticsCollector {
 public:
  StatisticsCollector(SimTime from, SimTime to) : from_(from), to_(to) {}
  void add(const Span& span, SimTime self);
  SpanStatistics finish();  // once, after the last add()

 private:
  SimTime percentile(std::int64_t percent);

  SimTime from_, to_;
  SpanStatistics statistics_;
  std::vector<SimTime> times_;
};

struct Selection {
  SpanStatistics all;                             // of spans that count (StepGraph::counts)
  std::map<std::string, SpanStatistics> by_kind;  // by TraceOp::kind; of all spans
  std::map<Rank, SpanStatistics> by_rank;         // as `all`; only ranks with spans of their own
};

/// Statistics of the `wanted` spans (all, if no function is given) that run at some time in [from,
/// to); spans of zero length that lie in it count too. `self` has the self times of the step's
/// spans, or nothing if none nest. Takes time linear in the spans of the step.
Selection select(const StepGraph& step, SimTime from, SimTime to,
                 const std::function<bool(SpanIndex)>& wanted = {},
                 std::span<const SimTime> self = {});

}  // namespace lockstep
