// Memory map: what lies where in a rank's arena, when, and what will be freed next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// One buffer of the arena in one step: [from, until) is from the begin of its first op to the end
/// of its last. Views are not listed: they lie in their parents.
struct BufferLife {
  BufferId buffer;
  std::int64_t offset = 0;  // in the arena
  std::int64_t bytes = 0;
  BufferKind kind = BufferKind::Activation;
  SimTime from{}, until{};
  SpanIndex first = -1, last = -1;  // its first and last op; -1: persistent, alive all the step
  bool persistent() const { return first < 0; }
  bool operator==(const BufferLife&) const = default;
};

/// All buffers of a rank (or of the one that stands for it) in one step, by `from`, then by offset;
/// those of no bytes, or whose ops did not run, left out. Requires a program.
std::vector<BufferLife> buffer_lives(const StepGraph& step, Rank rank);

/// The arena at a moment.
struct ArenaState {
  std::vector<BufferLife> live;  // by offset
  std::int64_t arena = 0;        // bytes; live + free
  std::int64_t used = 0;
  std::int64_t largest_hole = 0;  // of what is free, in one piece
  std::int64_t free() const { return arena - used; }
  /// 1 - largest hole / free: 0 if all that is free is in one piece, or nothing is.
  double fragmentation() const;
  /// Positions in `live` of what is not persistent, by `until`: what is freed next comes first.
  std::vector<std::size_t> next_freed() const;
};
/// `lives`: of buffer_lives; `arena`: Role::arena. Linear in the buffers of the step.
ArenaState arena_at(const std::vector<BufferLife>& lives, std::int64_t arena, SimTime t);

/// A rank's memory over the first traced step.
struct MemoryCurve {
  std::span<const MemorySample> samples;  // by time; the last one holds until the step ends
  std::int64_t peak = 0;                  // most bytes alive at once
  SimTime peak_time{};                    // when first
  std::int64_t arena = 0;  // what is allocated: the peak and what lies between buffers
  const MemorySample* at(SimTime t) const;  // null: before the first
};
std::int64_t total_bytes(const MemorySample& sample);
/// Points into `trace`. Without samples of the rank, `samples` is empty.
MemoryCurve memory_curve(const Trace& trace, Rank rank);

}  // namespace lockstep
