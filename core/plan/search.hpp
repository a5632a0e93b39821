// Search: lists the layouts that a cluster allows for a model and a batch, and finds the fastest of
// them. An oracle, usually the simulator, tells how long a step takes.
#pragma once

#include <cstddef>
#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/memory/device_memory.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Layouts that differ only in the size of a microbatch, which ascends: if one of them does not fit
/// into memory, no later one does.
struct LayoutFamily {
  /// Layouts that keep all activations, even if the scenario recomputes them.
  std::vector<Scenario> kept;
  /// The same layouts with all blocks recomputed; empty for a vision model.
  std::vector<Scenario> recomputed;
};

/// Every way to divide the ranks of the scenario's cluster among four kinds of parallelism:
/// - tensor parallel inside a node;
/// - context parallel in pieces of 4,096 tokens or more;
/// - pipeline parallel as 1F1B, interleaved by 2 and 4, and ZB-V;
/// - data parallel as DDP, ZeRO-1 or FSDP; with the last two, experts are divided among its ranks.
/// Each comes in microbatches of 1, 2, 4, 8 and 16 sequences.
///
/// All layouts validate and train the same global batch; everything else is as in the scenario,
/// except that [expect] is dropped, because it speaks of the scenario's own layout. Layouts whose
/// states alone exceed the device's memory are left out. Families that divide layers and sequences
/// least come first. The result is empty if the cluster or the batch allows no layout.
std::vector<LayoutFamily> layout_families(const Scenario& scenario);

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
  Scenario scenario;
  LayoutFigures figures;
};

struct SearchProgress {
  std::size_t families = 0, done = 0;  // all families, and those that were tried
  int asked = 0, too_large = 0;  // layouts the oracle was asked about, and those that do not fit
  const FoundLayout* best = nullptr;                // the best so far
  const std::vector<FoundLayout>* found = nullptr;  // layouts of the family that was tried last
};

struct SearchOptions {
  int threads = 1;
  /// Called after each family, by one thread at a time.
  std::function<void(const SearchProgress&)> progress;
  /// Called before each layout, by one thread at a time; the search ends when it returns true.
  std::function<bool()> stop;
};

struct SearchResult {
  std::vector<FoundLayout> found;  // fastest first
  int asked = 0, too_large = 0;    // layouts, as in SearchProgress
  std::size_t families = 0;
  std::size_t not_tried = 0;  // families that `stop` kept from being tried to the end
};

/// Asks the oracle about the layouts of each family that keep activations, by ascending microbatch
/// until one does not fit; and about those that recompute only if none of the former fits. Errors
/// of the oracle other than OutOfMemory end the search. The result depends on the number of threads
/// only if `stop` ended the search.
Result<SearchResult> search(const std::vector<LayoutFamily>& families, const LayoutOracle& oracle,
                            const SearchOptions& options);

/// Searches layout_families(scenario). Further errors: InvalidSpec for the synthetic model, and
/// OutOfMemory if no layout is found.
Result<SearchResult> search(const Scenario& scenario, const LayoutOracle& oracle,
                            const SearchOptions& options);

}  // namespace lockstep
