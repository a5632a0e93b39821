// Staleness: how many updates of the weights a pass has missed.
#pragma once

#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

/// How up to date the weights are that an op of a forward or backward pass reads.
struct WeightsRead {
  int updates = -1;  // of this step that the weights contain; -1: the op reads no weights
  int missed = 0;    // updates of earlier microbatches that they do not contain
  bool operator==(const WeightsRead&) const = default;
};

/// For each op of the role, the weights it reads; if an op reads several units, those of the one
/// that misses most. Empty where a step has one update, since all its passes read the same weights.
std::vector<WeightsRead> weights_read(const Program& program, const Role& role);

/// The most updates of earlier microbatches that are missing from the weights that a forward pass
/// of the role reads: p-1-r on rank r of PipeDream, 1 with PipeDream-2BW, 0 where a pipeline drains
/// before each update. It follows from the program alone.
int weight_staleness(const Program& program, const Role& role);

}  // namespace lockstep
