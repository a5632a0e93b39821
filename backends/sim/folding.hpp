// Folding: finds ranks that cannot differ, so that the simulator runs only one of them.
#pragma once

#include <vector>

#include "backends/sim/plan.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::sim {

/// Partitions the ranks into classes, as few as possible, so that the ranks of a class have the
/// same program and speed and, for each group and each peer, meet equally many ranks of each class
/// over equal links. Whatever one of them does, all do at the same time. A straggler is a class of
/// its own, and those who wait for it are further classes, and those who wait for them. The method
/// is colour refinement (Paige and Tarjan 1987); colours are 64-bit hashes. `roles` are by role of
/// the program. Ranks must not share devices.
Folding fold_alike(const Program& program, const ClusterSpec& cluster,
                   const IndexVector<RoleId, RolePlan>& roles, Rank straggler);

}  // namespace lockstep::sim
