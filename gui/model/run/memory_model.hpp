// MemoryModel: the memory of one rank in one run, ready to be drawn.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/memory_map.hpp"
#include "core/memory/device_memory.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

struct MemoryModel {
  RunPtr run;
  std::shared_ptr<const std::vector<MemorySample>> samples;  // of a simulation
  Rank rank = 0;
  SimTime begin{}, end{};  // of the first traced step
  MemoryCurve curve;       // into `samples` or the trace; empty if nothing tells of memory
  /// What lies where: buffers of a program, or blocks of a memory snapshot, whose `buffer` is then
  /// an index into RunView::allocations. Empty if neither is known.
  std::vector<BufferLife> lives;
  std::int64_t capacity = 0;  // of the rank's share of a device; 0 if not known
  DeviceMemory device;        // what its process keeps beside the arena; no terms if not known
  /// The bytes of the process: the arena with all terms beside it.
  std::int64_t process() const;
  bool empty() const { return curve.samples.empty(); }
  /// What one of `lives` is: "blocks.3 saved, microbatch 2", or the line of code that asked for it.
  std::string describe(const BufferLife& life) const;
  /// Which of the inks of memory one of `lives` has: that of its kind, or of its line of code.
  int ink_of(const BufferLife& life) const;

 private:
  const Allocation& block_of(const BufferLife& life) const;
};

/// Takes n log n for the n buffers of the rank's step.
MemoryModel make_memory_model(RunPtr run, Rank rank);

}  // namespace lockstep::gui
