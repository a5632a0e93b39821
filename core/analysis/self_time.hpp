// Self time: what a span takes less what is nested in it, so that nested spans can be added up.
#pragma once

#include <vector>

#include "core/base/units.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// By index into Trace::spans: a span's running time (active to end). Of a host's span, and of an
/// annotation, what calls nested in it on the same thread take is not in it, so that the self times
/// of a thread add up to the time in which the thread does anything. Empty if the trace has nothing
/// that nests. Takes n log n time.
std::vector<SimTime> self_times(const Trace& trace);

}  // namespace lockstep
