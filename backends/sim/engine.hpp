// Engine: a discrete-event run of one training step on a virtual clock, without trace and files.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/column.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/cluster/what_if.hpp"
#include "core/ir/program.hpp"
#include "core/trace/spans.hpp"

namespace lockstep::sim {

/// An op is active from when it is at the front of its stream, its dependencies have ended and its
/// peers have arrived. The intervals [active, end) of the ops of one stream are disjoint: the
/// `active` of a message that travels while its predecessor is still under way is the predecessor's
/// end.
using OpTiming = ActiveTime;

struct Timeline {
  std::vector<Rank> ranks;          // the simulated ranks, ascending
  IndexVector<Rank, Rank> same_as;  // by rank: the simulated rank that stands for it
  Column<OpTiming> times;           // by position in `ranks`, then in stream_order()
  std::vector<std::size_t> first;   // by position in `ranks`: into `times`; one more at the end
  std::vector<SimTime> slowed;      // by position in `ranks`: how much longer its calls took
                                    // because of transfers beside them
  SimTime makespan{};               // the end of the op that ends last
  std::int64_t num_ops = 0;         // of all simulated ranks together
  /// The place among `ranks` of the one that stands for `rank`.
  std::size_t place_of(Rank rank) const;
  std::span<const OpTiming> of_place(std::size_t i) const {
    return {times.data() + first[i], first[i + 1] - first[i]};
  }
  /// The times of the rank at place i, by op. `role` is that of the rank.
  IndexVector<OpId, OpTiming> by_op(std::size_t i, const Role& role) const;
};

/// When a rank's data loader has the samples of microbatch i: at first + i each, or before the step
/// begins.
struct SampleTimes {
  SimTime first{}, each{};
  SimTime of(Microbatch i) const { return first + repeated(std::max(i, 0), each); }
};

struct EngineOptions {
  bool fold = true;  // simulate only one rank of those that cannot differ
  SampleTimes samples =
      {};  // all zero: nobody waits for a data loader (loading.hpp has those who do)
};

/// Runs the ops of every stream in the order of their ids, from time 0. What an op takes:
/// - A call takes function_time × the straggler's factor. If more than concurrent_ranks calls run
///   on one device, whether of one rank's streams or of several ranks, each progresses at
///   concurrent_ranks / running. Where several ranks share a device that is its own host, as the
///   cores of a CPU do, its cores also carry out the transfers, each member its part: these count
///   as calls do. Given times (program.p2p_latency is set) hold whatever shares the device.
/// - Where streams are threads, an op that waited for another stream takes the device's hand_over
/// in
///   addition; a collective takes it three times and a message twice. Given times include it.
/// - A collective is active when all members are ready, and then takes its collective_time().
///   Collectives of a group are matched by their sequence number in op order.
/// - A message is active when both sides are ready. It occupies both streams for the transfer and
///   arrives the latency later, in order, so that latencies of consecutive messages overlap.
///   program.p2p_latency, where set, is the latency; the transfer then takes no time.
/// - With NCCL a rank has four ports: into and out of its device, inside the node and to the
///   network. Transfers that use a port at one time divide it by max-min fairness (PortShares).
/// - A host copy takes bytes / host_bandwidth; one that brings samples from memory that is not
///   pinned, 2 bytes / host_memory_bandwidth in addition. Samples are not brought before
///   EngineOptions::samples has them.
/// - What is read from a node's drives, or written to them, takes their latency + bytes at the rate
///   that the rank reaches alone (DriveSpec). Of several at one time, by whichever ranks and in
///   whichever direction, each has the drives for an equal part of the time: flash that reads
///   cannot write.
/// - Calls of a rank that takes part in a running collective or message progress at
///   1/overlap_slowdown (DeviceSpec), and so does a transfer of which a rank runs a call. Latencies
///   of messages and host copies are not slowed down.
///
/// Of the ranks that do the same at the same time only one is simulated (see fold_alike()). With
/// jitter, or if ranks share a device's throughput, all are; and where they share drives, if a rank
/// stands for ranks of nodes that are not alike.
///
/// Requires verify(program).empty(). The same input gives the same result on any machine. Errors:
/// Internal if the program gets stuck, naming the blocked ops, or if a message is on a stream that
/// is not for messages.
Result<Timeline> simulate(const Program& program, const ClusterSpec& cluster,
                          const WhatIfSpec& what_if = {}, const EngineOptions& options = {});

}  // namespace lockstep::sim
