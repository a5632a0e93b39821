// Name statistics: what ops of one name take in a trace: kernels, and what the host calls.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/analysis/selection.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

struct NameStatistics {
  std::int32_t name = 0, kind = 0;  // into Trace::names
  bool host = false;                // of the host, or an annotation
  SpanStatistics times;
  /// Of the self times of all ops that are shown, those of devices and those of hosts apart.
  double share = 0;
};

/// Statistics of the `wanted` spans (indices into Trace::spans; all, if no function is given), by
/// name and kind, over all ranks and steps; the largest self time first, devices before hosts.
/// `self` is what self_times(trace) returned.
std::vector<NameStatistics> statistics_by_name(const Trace& trace, const std::vector<SimTime>& self,
                                               const std::function<bool(std::size_t)>& wanted = {});

}  // namespace lockstep
