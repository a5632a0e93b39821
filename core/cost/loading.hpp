// Loading: how fast the data loader of a rank makes samples ready.
#pragma once

#include <cstdint>

#include "core/base/units.hpp"
#include "core/cluster/data_loader.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

struct LoadingPace {
  Seconds microbatch;  // from one that is ready to the next; workers share a loader's microbatches
  Seconds step;        // for all microbatches of a rank's step
  int ahead = 0;       // microbatches that may be ready before they are asked for
};

/// Of a rank that reads `per_step` samples in a step, `microbatch` of them at a time:
///   microbatch = sample × microbatch / max(1, num_workers)
///   step       = sample × per_step / max(1, num_workers)
///   ahead      = num_workers × prefetch_factor
LoadingPace loading_pace(std::int64_t per_step, std::int64_t microbatch,
                         const DataLoaderSpec& loader);
/// That of the ranks of a program; all zero if it reads no samples.
LoadingPace loading_pace(const Program& program, const DataLoaderSpec& loader);

}  // namespace lockstep
