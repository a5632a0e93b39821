// Lifetimes: the buffers of a role in the order in which they begin or end.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

/// The root buffers that have a lifetime, sorted by its first or its last op, and then by id.
std::vector<BufferId> temporaries_by(OpId Buffer::*op, const Role& role);

}  // namespace lockstep
