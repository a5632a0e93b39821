// Unshard: which virtual stages of a pipeline rank hold gathered parameters while it runs its
// actions.
#pragma once

#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// For each action of a rank, how often the parameters of its stage have been gathered by then, if
/// gathered copies are dropped of all but the `most_active` stages that the rank touches next (0:
/// of none).
std::vector<int> unshards(const std::vector<Action>& actions, int most_active);

}  // namespace lockstep
