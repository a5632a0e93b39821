// Trace: the one output of every backend. It can be read without the program.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/units.hpp"
#include "core/trace/spans.hpp"
#include "core/trace/trace_ops.hpp"

namespace lockstep {

struct TraceRole {
  TraceOps ops;
  bool operator==(const TraceRole&) const = default;
};

/// Says that one span caused another, where no transfer does: a launch and its kernel ("ac2g"), or
/// a forward op and the backward op that it recorded ("fwdbwd").
struct Flow {
  std::int32_t kind = 0;           // into Trace::names
  std::uint32_t from = 0, to = 0;  // into Trace::spans
  bool operator==(const Flow&) const = default;
};

/// Memory in use after an event, by buffer kind (BufferKind order), for one rank of one step.
struct MemorySample {
  Rank rank = 0;
  SimTime time{};
  IndexVector<std::int32_t, std::int64_t> bytes_by_kind;
  bool operator==(const MemorySample&) const = default;
};

/// The figures of one training step; backends report them as soon as the step has ended.
struct StepResult {
  int step = 0;  // 0-based, counted from the start of training
  double loss = 0;
  double grad_norm = 0;
  double lr = 0;
  Seconds time;           // wall or virtual
  double loss_scale = 0;  // by which the step's gradients were multiplied; 0: losses are not scaled
  int good_steps = 0;     // after this step, since the loss scale last changed
  int skipped_steps = 0;  // until after this step, because a gradient was not finite
  bool operator==(const StepResult&) const = default;
};

struct Trace {
  int format_version = 1;
  std::string backend;  // name of the backend, such as "sim"; "kineto" for a trace from elsewhere
  std::string program_hash;
  SimTime clock_uncertainty{};  // how far clocks of different processes may differ
  IndexVector<std::int32_t, std::string> names;
  IndexVector<Rank, std::string> rank_labels;      // "rank 3 (pp1 dp1)", by rank
  IndexVector<std::int32_t, std::string> streams;  // by stream index
  IndexVector<std::int32_t, TraceRole> roles;
  IndexVector<Rank, std::int32_t> role_of_rank;
  /// By collective channel, then by rank: the smallest rank of the rank's own group, -1 if it is in
  /// none. Ops of two ranks belong together if channel, seq and instance are equal.
  IndexVector<std::int32_t, IndexVector<Rank, Rank>> instances;
  /// By rank: the rank whose spans stand for it; the rank itself if it has spans of its own.
  IndexVector<Rank, Rank> same_as;
  Spans spans;              // sorted by (step, rank, stream, begin); disjoint on a stream
  std::vector<Flow> flows;  // sorted by (from, to); only in traces from elsewhere
  IndexVector<std::int32_t, std::string> memory_kinds;
  std::vector<MemorySample> memory;             // of the first traced step, sorted by (rank, time)
  IndexVector<Rank, std::int64_t> peak_memory;  // by rank: bytes of the arena as allocated
  /// By rank, ps: what its calls took longer because of transfers beside them. Empty: not known
  /// (real backends see only how long things took), or nothing.
  IndexVector<Rank, std::int64_t> slowed;
  IndexVector<int, StepResult> steps;  // of every step, traced or not; real backends only
  bool operator==(const Trace&) const = default;
};

}  // namespace lockstep
