// Capacity: checks whether a planned program fits into the devices of a cluster.
#pragma once

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// The device memory that each of `ranks` ranks has to itself, if several share a device. 0 if the
/// cluster names no limit.
Bytes memory_per_rank(const ClusterSpec& cluster, int ranks);

/// Error OutOfMemory if the arena of a rank exceeds its part of a device's memory. For the first
/// such role it names a rank, how much is too little, the op at the peak, and the largest buffers
/// that are alive there. Requires planned memory, as in the result of lower().
Result<void> check_capacity(const Program& program, const ClusterSpec& cluster);

}  // namespace lockstep
