// Capacity: checks whether a planned program fits into the devices of a cluster.
#pragma once

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"
#include "core/memory/device_memory.hpp"

namespace lockstep {

/// Error OutOfMemory if what a rank needs (device_memory()) exceeds its part of a device's memory.
/// For the first such role it names a rank, what it needs term by term, how much is too little, the
/// op at the peak, and the largest buffers that are alive there. Likewise if what the ranks of a
/// node keep in its host's memory, or on its drives, exceeds that. Requires planned memory, as in
/// the result of lower(). `most`, if given, gets the figures of the role that needs most, as
/// most_memory(), if all fit.
Result<void> check_capacity(const Program& program, const ClusterSpec& cluster,
                            MemoryFigures* most = nullptr);

}  // namespace lockstep
