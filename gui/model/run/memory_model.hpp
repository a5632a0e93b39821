// MemoryModel: one rank's memory in one run, ready to be drawn.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/memory_map.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

struct MemoryModel {
  RunPtr run;  // keeps alive what `curve` points into
  Rank rank = 0;
  SimTime begin{}, end{};         // of the first traced step
  MemoryCurve curve;              // no samples: the trace tells nothing of memory
  std::vector<BufferLife> lives;  // empty without a program
  std::int64_t capacity = 0;      // of the rank's share of a device; 0: not known
  bool empty() const { return curve.samples.empty(); }
  /// "blocks.3 saved, microbatch 2": what a buffer is. Requires a program.
  std::string describe(const BufferLife& life) const;
};

/// n log n in the buffers of the rank's step.
MemoryModel make_memory_model(RunPtr run, Rank rank);

}  // namespace lockstep::gui
