// Trace builder: makes the part of a trace that follows from the program alone, and the memory
// curve that follows from program and spans. Every backend fills its trace by these two functions,
// so that traces of different backends differ in times and in nothing else.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/trace/trace.hpp"

namespace lockstep {

/// First TraceOp::channel of messages between pipeline ranks; collectives have smaller ones.
inline constexpr std::int32_t kFirstMessageChannel = 1'000'000;

/// A trace of `program` without spans, memory samples and steps: names, kinds, labels, streams,
/// roles, channels, peak memory. same_as maps every rank to itself.
///
/// TraceOp::kind is one of forward, backward, backward_input, backward_weight, recompute,
/// optimizer, other, all_reduce, all_gather, reduce_scatter, broadcast, all_to_all, rotate, send,
/// recv, copy.
///
/// TraceOp::channel and seq are the same for every rank of a role, so a reader adds the instance:
/// - collective: channel is the GroupId, seq counts the role's collectives of that group in op
///   order. Ops of two ranks belong together if channel and seq are equal and the ranks are members
///   of one group instance, that is, if Trace::instances of their channel is equal.
/// - message: channel is kFirstMessageChannel + (backward * P + from) * P + to, with pipeline
///   coordinates from, to < P = mesh.size_of("pp"); seq counts the role's messages on that channel.
///   Sender and receiver differ in their "pp" coordinate only: the i-th rank, in rank order, that
///   sends on a channel pairs with the i-th rank that receives on it.
Trace make_trace_skeleton(const Program& program, std::string backend);

/// Whether spans and peak memory, which other processes sent, can be those of `program`, so that
/// they may be used as indices. Error Device if not.
Result<void> check_spans(const Program& program, const std::vector<Span>& spans,
                         const std::vector<std::int64_t>& peak_memory);

/// The spans sorted as Trace::spans says, and moved so that the first begins at time 0.
Spans ordered(std::vector<Span> spans, const Program& program);

/// Trace::memory, from the spans of the first traced step, for every rank that has its own spans. A
/// buffer is live from the begin of its first op to the end of its last; a persistent one is always
/// live; a view counts as its parent. A rank has one sample at the begin of the step and one at
/// every later time at which something is allocated or freed.
/// Requires that the spans are those of `program`, sorted as Trace::spans says.
std::vector<MemorySample> memory_samples(const Trace& trace, const Program& program);
/// Those of one rank; none if the rank has no spans of its own.
std::vector<MemorySample> memory_samples(const Trace& trace, const Program& program, Rank rank);

}  // namespace lockstep
