// Found layout: a layout with the figures of a step of it, which an oracle, usually the simulator,
// tells; and the names under which layouts are shown.
#pragma once

#include <functional>
#include <string>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/memory/device_memory.hpp"
#include "core/plan/space.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// A short name such as "tp 8 · pp 4 Interleaved1F1B v 2 · dp 8 ZeRO-1 · 64 × 2 · full
/// recomputation", where a rank has 64 microbatches in a step, of 2 sequences each.
std::string layout_name(const Scenario& layout);

/// The layout as a scenario file, whose first line says where it comes from.
std::string layout_file(const Scenario& layout);

/// What all layouts of a search share: "llama3-70b on h100, 256 sequences of 8192 tokens a step".
std::string search_task(const Scenario& scenario);

/// What a model's throughput counts: "tokens", or "images" for a vision model.
std::string trained_on(const Scenario& scenario);

/// What the oracle says of a layout that fits into memory.
struct LayoutFigures {
  double throughput = 0;  // tokens/s, or images/s for a vision model
  double mfu = 0;
  Seconds step_time, exposed_comm;
  double bubble_fraction = 0;
  Bytes peak_memory;     // the arena of the rank that needs most
  MemoryFigures memory;  // with what its process keeps beside
};
/// Predicts a step of a layout. Error OutOfMemory if the layout does not fit. Several threads call
/// it at once.
using LayoutOracle = std::function<Result<LayoutFigures>(const Scenario&)>;

struct FoundLayout {
  LayoutPoint point;
  Scenario scenario;
  LayoutFigures figures;
};

}  // namespace lockstep
