// Stream order: the ops of a role, one stream behind the other. This is how times of ops lie in a
// timeline, and spans in a trace.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"
#include "core/trace/spans.hpp"

namespace lockstep::sim {

struct StreamOrder {
  std::vector<std::uint32_t> ops;             // their ids, by stream and then ascending
  std::uint32_t begin[kNumStreams + 1] = {};  // where each stream begins in `ops`
};
StreamOrder stream_order(const Role& role);

/// Where each op is in the order.
IndexVector<OpId, std::uint32_t> places(const StreamOrder& order);

/// Writes when each op of a simulated rank was at the front of its stream with its dependencies
/// ended, which is not later than `active`. The engine does not store it, because it follows from
/// the ends of other ops: it is the latest of those of the op before on the stream and of the ops
/// in `after`. `times` and `begins` are in stream order, whose places are `places`.
void find_begins(const Role& role, const IndexVector<OpId, std::uint32_t>& places,
                 std::span<const ActiveTime> times, std::span<SimTime> begins);

}  // namespace lockstep::sim
