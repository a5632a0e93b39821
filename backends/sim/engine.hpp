// Engine: discrete-event run of one training step on a virtual clock; no trace, no files.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/cluster/what_if.hpp"
#include "core/ir/program.hpp"

namespace lockstep::sim {

/// active: the op is in front of its stream, its dependencies are met and its peers have arrived.
/// [active, end) of the ops of one stream are disjoint: a message that travels while its
/// predecessor on the stream is still under way has its `active` moved up to the predecessor's end.
struct OpTiming {
  SimTime active{}, end{};
};

struct Timeline {
  std::vector<Rank> ranks;                         // simulated ones, ascending
  IndexVector<Rank, Rank> same_as;                 // by rank: the simulated rank that stands for it
  std::vector<IndexVector<OpId, OpTiming>> times;  // by position in `ranks`, then by op
  SimTime makespan{};                              // the last end
  std::int64_t num_ops = 0;                        // over the simulated ranks
};

struct EngineOptions {
  bool fold = true;  // simulate one rank of those that cannot differ
};

/// When each op of a simulated rank was in front of its stream with its dependencies met: not later
/// than `active`. Not stored, since it follows from the ends: the latest of the op before on the
/// stream and of the ops in `after`.
IndexVector<OpId, SimTime> begin_times(const Role& role, const IndexVector<OpId, OpTiming>& times);

/// Runs every stream's ops in id order from time 0:
/// - call: function_time × straggler factor. Calls that run together on one device, of one rank's
///   streams or of several ranks, more than
///   concurrent_ranks of them, progress at concurrent_ranks / running each; not with given times
///   (program.p2p_latency given), which hold whatever shares the device.
/// - collective: active when all members are ready, then latency + transfer over the slowest link;
///   matched within a group by sequence number in op order.
/// - message: active when both sides are ready; occupies both streams for `transfer` and arrives
///   `latency` later, in order, so that latencies of consecutive messages overlap.
///   program.p2p_latency, where given, is the latency, with transfer 0.
/// - host copy: bytes / host_bandwidth.
/// - DeviceSpec::overlap_slowdown: calls of a rank that takes part in a running collective or
///   transfer progress at 1 / slowdown, and so does a transfer one of whose ranks runs a call.
///   Latency of messages and host copies are not slowed.
/// Of ranks that do the same at the same time one is simulated, see fold_alike(); jitter, and ranks
/// that share a device's throughput, tell all apart.
///
/// Requires verify(program).empty(). Same input, same result, on any machine. Errors: Internal if
/// the program gets stuck (names blocked ops) or a message is on a stream that is not for messages.
Result<Timeline> simulate(const Program& program, const ClusterSpec& cluster,
                          const WhatIfSpec& what_if = {}, const EngineOptions& options = {});

}  // namespace lockstep::sim
