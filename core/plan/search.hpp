// Search: the layouts that a cluster allows for a model and a batch, and the fastest of them by
// what an oracle, the simulator, says of a step.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Layouts that differ in the size of a microbatch only, ascending: if one does not fit, no later
/// one does.
struct LayoutFamily {
  std::vector<Scenario> kept;        // activations kept, whatever the scenario does
  std::vector<Scenario> recomputed;  // the same, all blocks recomputed
};

/// Every way to divide the ranks of the scenario's cluster among tensor (inside a node), context
/// (pieces of 4,096 tokens or more), pipeline and data parallelism, the last as DDP, ZeRO-1 or
/// FSDP, and experts among the last; pipelines as 1F1B, interleaved by 2 and 4, and ZB-V; in
/// microbatches of 1, 2, 4, 8 and 16 sequences. All validate, and train the same global batch with
/// everything else as the scenario has it, but for [expect], which speaks of its own layout. Those
/// whose states alone exceed the device's memory are left out. Those that divide layers and
/// sequences least come first. Empty: the cluster or the batch allows none.
std::vector<LayoutFamily> layout_families(const Scenario& scenario);

/// "tp 8 · pp 4 Interleaved1F1B v 2 · dp 8 ZeRO-1 · 64 × 2 · full recomputation": microbatches of
/// a rank and step, and the sequences of each.
std::string layout_name(const Scenario& layout);

/// The layout's scenario as a file, which says in its first line where it is from.
std::string layout_file(const Scenario& layout);

/// What all layouts share: "llama3-70b on h100, 256 sequences of 8192 tokens a step".
std::string search_task(const Scenario& scenario);

/// What its throughput counts: "tokens", of a vision model "images".
std::string trained_on(const Scenario& scenario);

/// What the oracle says of a layout that fits.
struct LayoutFigures {
  double throughput = 0;  // tokens/s; images/s of a vision model
  double mfu = 0;
  Seconds step_time, exposed_comm;
  double bubble_fraction = 0;
  Bytes peak_memory;  // of the fullest rank
};
/// Error OutOfMemory: does not fit. Called by several threads at once.
using LayoutOracle = std::function<Result<LayoutFigures>(const Scenario&)>;

struct FoundLayout {
  Scenario scenario;
  LayoutFigures figures;
};

struct SearchProgress {
  std::size_t families = 0, done = 0;  // of them
  int asked = 0, too_large = 0;        // layouts that the oracle was asked about; do not fit
  const FoundLayout* best = nullptr;   // so far
  const std::vector<FoundLayout>* found = nullptr;  // of the family that was tried last
};

struct SearchOptions {
  int threads = 1;
  std::function<void(const SearchProgress&)> progress;  // after each family, by one at a time
  std::function<bool()> stop;  // asked before each layout, by one at a time
};

struct SearchResult {
  std::vector<FoundLayout> found;  // fastest first
  int asked = 0, too_large = 0;    // layouts
  std::size_t families = 0;
  std::size_t not_tried = 0;  // of them, or not to the end, because of `stop`
};

/// Of each family the microbatches that fit are tried with activations kept; recomputed only if
/// none does. Errors of the oracle other than OutOfMemory end the search. The result depends on
/// the number of threads only if it is stopped.
Result<SearchResult> search(const std::vector<LayoutFamily>& families, const LayoutOracle& oracle,
                            const SearchOptions& options);

/// The same of the scenario's families. Errors besides: InvalidSpec for the synthetic model;
/// OutOfMemory if no layout is found.
Result<SearchResult> search(const Scenario& scenario, const LayoutOracle& oracle,
                            const SearchOptions& options);

}  // namespace lockstep
