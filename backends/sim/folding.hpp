// Folding of the simulator: ranks that cannot differ are simulated once.
#pragma once

#include <vector>

#include "backends/sim/plan.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::sim {

/// The coarsest partition of the ranks in which those of one class have the same program and speed
/// and, for each group and each peer, meet as many ranks of each class over equal links: what one
/// of them does, all do at the same time. A straggler makes classes of its own, of those who wait
/// for it, and of those who wait for them. (Colour refinement; Paige and Tarjan 1987. Colours are
/// 64-bit hashes.) `roles`: by role of the program. Ranks must not share devices.
Folding fold_alike(const Program& program, const ClusterSpec& cluster,
                   const IndexVector<RoleId, RolePlan>& roles, Rank straggler);

}  // namespace lockstep::sim
