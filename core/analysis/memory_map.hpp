// Memory map: what lies where in a rank's arena, when, and what will be freed next.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// One buffer of the arena in one step. It is alive in [from, until), from the begin of the first
/// op that names it to the end of the last. Views are not listed, since they lie in their parents.
struct BufferLife {
  BufferId buffer;
  std::int64_t offset = 0;  // in the arena
  std::int64_t bytes = 0;
  BufferKind kind = BufferKind::Activation;
  SimTime from{}, until{};
  SpanIndex first = -1,
            last = -1;  // its first and last op; -1: persistent, alive throughout the step
  bool persistent() const { return first < 0; }
  bool operator==(const BufferLife&) const = default;
};

/// All buffers of a rank (or of the one that stands for it) in one step, sorted by `from`, then by
/// offset. Buffers of zero bytes and those whose ops did not run are left out. Requires a program.
std::vector<BufferLife> buffer_lives(const StepGraph& step, Rank rank);

/// The arena at a moment.
struct ArenaState {
  std::vector<BufferLife> live;  // sorted by offset
  std::int64_t arena = 0;        // bytes; live + free
  std::int64_t used = 0;
  std::int64_t largest_hole = 0;  // the longest free stretch
  std::int64_t free() const { return arena - used; }
  /// 1 - largest hole / free; 0 if the free bytes are in one piece, or none are free.
  double fragmentation() const;
  /// Positions in `live` of the buffers that are not persistent, sorted by `until`: what is freed
  /// next comes first.
  std::vector<std::size_t> next_freed() const;
};
/// The arena at time t. `lives` is what buffer_lives returned, `arena` is Role::arena. Takes time
/// linear in the buffers of the step.
ArenaState arena_at(const std::vector<BufferLife>& lives, std::int64_t arena, SimTime t);

/// A rank's memory over the first traced step.
struct MemoryCurve {
  std::span<const MemorySample> samples;  // sorted by time; the last one holds until the step ends
  std::int64_t peak = 0;                  // most bytes alive at once
  SimTime peak_time{};                    // when `peak` was first reached
  std::int64_t arena = 0;                 // bytes allocated: the peak plus gaps between buffers
  const MemorySample* at(SimTime t) const;  // null: t is before the first
};
std::int64_t total_bytes(const MemorySample& sample);
/// The result points into `samples`, which are Trace::memory or those of the rank that stands for
/// `rank`. Without samples of that rank, MemoryCurve::samples is empty.
MemoryCurve memory_curve(const Trace& trace, Rank rank, std::span<const MemorySample> samples);
inline MemoryCurve memory_curve(const Trace& trace, Rank rank) {
  return memory_curve(trace, rank, trace.memory);
}

}  // namespace lockstep
