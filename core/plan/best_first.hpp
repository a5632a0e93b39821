// Best-first search: of all layouts, those that bounds do not throw out are estimated, the most
// promising first, and the best by estimate are simulated in full.
#pragma once

#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "core/plan/families.hpp"
#include "core/plan/found_layout.hpp"
#include "core/plan/space.hpp"

namespace lockstep {

/// How many layouts there were, and what became of them.
struct SpaceCounts {
  std::size_t layouts = 0;
  std::size_t too_large = 0;  // by the bound on memory
  std::size_t too_slow = 0;   // by the bound on time
  std::size_t refused = 0;    // by validate() or lowering, of those that were looked at
  std::size_t estimated = 0;
  std::size_t estimated_large = 0;  // of these, by their estimate too large
  std::size_t implied_large = 0;    // not estimated: they need more than one of these
  std::size_t simulated = 0;        // lowered, verified and simulated in full
  std::size_t simulated_large = 0;  // of these, that do not fit
  std::size_t settings = 0;         // of the best layouts, simulated in full beside these
  int probes = 0;                   // small programs that the estimates are made of
};

/// What a search has found since it last told.
struct SpaceNews {
  const SpaceCounts& counts;
  std::span<const EstimatedLayout> estimated;  // that fit by their estimate
  std::span<const FoundLayout> found;          // simulated in full
};

/// What the best layout of a cluster has least of. On one cluster the least time of a step is also
/// the most throughput of a device, and the least money and energy of a step.
enum class Objective { Time, Memory };

/// How much more than is simulated nine in ten published runs allocated at most, as a part of it
/// (docs/validation.md). A layout that leaves less of its device free may run out of memory.
inline constexpr double kMeasuredMemoryOver = 0.08;

struct SpaceOptions {
  Objective objective = Objective::Time;
  int threads = 1;
  bool exhaustive = false;  // simulate every layout, whatever bounds and estimates say
  bool front = false;       // keep what may be on the front of time against memory, too
  /// How many that fit are simulated in full. 0: two, or one if no other is within
  /// EstimateClaim::kUsualTime of the best by estimate; and more if nothing is claimed of some that
  /// are.
  int finalists = 0;
  bool settings = true;  // try other settings (core/plan/settings.hpp) for the best that is found
  Bytes most_memory;     // of a rank; 0: what its device has
  LayoutConstraints constraints;
  std::function<void(const SpaceNews&)> progress;  // called by one thread at a time
  /// Ends the search when it returns true. Several threads ask at once.
  std::function<bool()> stop;
};

struct SpaceResult {
  SpaceCounts counts;
  std::vector<FoundLayout> found;          // simulated in full, best first
  std::vector<EstimatedLayout> estimated;  // that fit by their estimate, best first
  std::vector<EstimatedLayout> families;   // of these, the best of each family
  std::vector<EstimatedLayout> front;      // of these, those that no faster one needs less than
  std::vector<LostFamily> lost;            // those that may fit first, then the fastest
  Bytes capacity;                          // of a rank; 0: no limit
  /// How many layouts are within EstimateClaim::kUsualTime of the best by estimate, and were not
  /// simulated.
  std::size_t undecided = 0;
  bool stopped = false;
};

/// The result does not depend on the number of threads, unless `stop` ended the search. Errors:
/// InvalidSpec for the synthetic model, OutOfMemory if no layout fits, and those of oracle and
/// prober. The layouts of a residual network are not estimated: all that their bounds do not throw
/// out are simulated.
Result<SpaceResult> search_space(const Scenario& base, const LayoutOracle& oracle,
                                 const Prober& prober, const SpaceOptions& options);

}  // namespace lockstep
