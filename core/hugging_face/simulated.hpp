// Families of which no weights are read here. Internal to core/hugging_face.
#pragma once

#include <vector>

#include "core/hugging_face/families.hpp"

namespace lockstep {

/// Families whose weights are not read: most are simulated and not trained, because what differs
/// from those that are takes next to no time and memory, and changes numbers.
std::vector<HfFamily> simulated_hf_families();

}  // namespace lockstep
