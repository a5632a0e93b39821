// Staleness: how many updates of the weights a forward pass has missed.
#pragma once

#include "core/ir/program.hpp"

namespace lockstep {

/// Most updates of earlier microbatches that are not in the weights that a forward pass of the role
/// reads: p-1-r on rank r of PipeDream, 1 with PipeDream-2BW, 0 where a pipeline drains before each
/// update. A fact of the program alone.
int weight_staleness(const Program& program, const Role& role);

}  // namespace lockstep
