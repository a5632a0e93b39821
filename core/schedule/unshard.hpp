// Unshard: which virtual stages of a pipeline rank hold unsharded parameters while it runs its
// actions.
#pragma once

#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep {

/// For each action of a rank, how often the parameters of its stage have been unsharded by then.
/// Only the `most_active` stages that the rank touches next stay unsharded, and the others are
/// resharded (0: none is).
std::vector<int> unshards(const std::vector<Action>& actions, int most_active);

}  // namespace lockstep
