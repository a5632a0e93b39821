// Capacity: does a planned program fit into the devices of a cluster?
#pragma once

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Device memory that each of `ranks` ranks has to itself, where several share a device; zero: the
/// cluster names no limit.
Bytes memory_per_rank(const ClusterSpec& cluster, int ranks);

/// Error OutOfMemory if some rank's arena exceeds its device's memory: for the first such role it
/// names a rank, by how much it does not fit, the op at the peak and the largest buffers alive
/// there. Requires planned memory (the result of lower()).
Result<void> check_capacity(const Program& program, const ClusterSpec& cluster);

}  // namespace lockstep
