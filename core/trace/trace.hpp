// Trace: the one output of every backend; readable without the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/units.hpp"

namespace lockstep {

/// What one op of one rank did in one step. begin <= active <= end.
struct Span {
  Rank rank = 0;
  OpId op;  // index into TraceRole::ops of the rank's role
  std::int32_t step = 0;
  SimTime begin{};   // reached the front of its stream, dependencies met
  SimTime active{};  // all peers have arrived: transfer or arithmetic begins
  SimTime end{};
  bool operator==(const Span&) const = default;
};

/// What a span's op was, by role: enough to draw and to add up without the program.
struct TraceOp {
  std::int32_t name = 0;     // into Trace::names: "block.F", "all_reduce dp"
  std::int32_t kind = 0;     // into Trace::names: the class that compare adds up by
                             // ("forward", "backward", "optimizer", "all_reduce", "send", …)
  std::uint16_t stream = 0;  // into Trace::streams; of our own programs: Stream
  std::uint8_t phase = 0;    // Phase
  std::int16_t stage = -1;
  std::int32_t layer = -1;
  std::int32_t microbatch = -1;
  std::int64_t bytes = 0;     // payload of a transfer
  std::int32_t channel = -1;  // transfers that belong together across ranks share (channel, seq):
  std::int32_t seq = -1;      // a group's n-th collective; a pair's n-th message
  bool operator==(const TraceOp&) const = default;
};

struct TraceRole {
  std::vector<TraceOp> ops;
  bool operator==(const TraceRole&) const = default;
};

/// One span brought about another where no transfer says so: a kernel and its launch ("ac2g"), a
/// backward op and the forward op that recorded it ("fwdbwd").
struct Flow {
  std::int32_t kind = 0;           // into Trace::names
  std::uint32_t from = 0, to = 0;  // into Trace::spans
  bool operator==(const Flow&) const = default;
};

/// Memory in use after an event, by buffer kind (BufferKind order), for one rank of one step.
struct MemorySample {
  Rank rank = 0;
  SimTime time{};
  std::vector<std::int64_t> bytes_by_kind;
  bool operator==(const MemorySample&) const = default;
};

/// One finished training step, told as it happens.
struct StepResult {
  int step = 0;  // 0-based, counted from the start of training
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  Seconds time;  // wall or virtual
  bool operator==(const StepResult&) const = default;
};

struct Trace {
  int format_version = 1;
  std::string backend;  // "sim", "cpu", "cuda"; of a trace from elsewhere: "kineto"
  std::string program_hash;
  SimTime clock_uncertainty{};  // spans of ranks in different processes: ± this
  std::vector<std::string> names;
  std::vector<std::string> rank_labels;  // "rank 3 (pp1 dp1)", by rank
  std::vector<std::string> streams;      // by stream index
  std::vector<TraceRole> roles;
  std::vector<std::int32_t> role_of_rank;
  std::vector<std::vector<Rank>>
      instances;  // by collective channel, by rank: smallest rank of the
                  // rank's own group, -1 outside; ops of two ranks belong
                  // together if channel, seq and instance are equal
  std::vector<Rank>
      same_as;              // by rank: the rank whose spans stand for it (itself if it has its own)
  std::vector<Span> spans;  // sorted by (step, rank, stream, begin); disjoint on a stream
  std::vector<Flow> flows;  // sorted by (from, to); traces from elsewhere
  std::vector<std::string> memory_kinds;
  std::vector<MemorySample> memory;       // sorted by (rank, time); first traced step
  std::vector<std::int64_t> peak_memory;  // by rank: bytes of the arena that was really allocated
  std::vector<StepResult> steps;          // real backends: every step, traced or not
  bool operator==(const Trace&) const = default;
};

}  // namespace lockstep
