// Staleness: how many updates of the weights a pass has missed.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

/// The weights that an op of a forward or backward pass reads.
struct WeightsRead {
  int updates = -1;  // of this step that are in them; -1: it reads none
  int missed = 0;    // updates of earlier microbatches that are not
  bool operator==(const WeightsRead&) const = default;
};

/// By op of the role; of a unit that lacks more, if an op reads several. Empty where a step has one
/// update: its passes all read the same.
std::vector<WeightsRead> weights_read(const Program& program, const Role& role);

/// Most updates of earlier microbatches that are not in the weights that a forward pass of the role
/// reads: p-1-r on rank r of PipeDream, 1 with PipeDream-2BW, 0 where a pipeline drains before each
/// update. A fact of the program alone.
int weight_staleness(const Program& program, const Role& role);

}  // namespace lockstep
