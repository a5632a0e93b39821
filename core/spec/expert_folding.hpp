// Expert folding: over how many ranks experts can be divided where the ranks of tensor and context
// parallelism are among them (Liu et al. 2025, MoE Parallel Folding; torchtitan's expert
// parallelism borrows ranks in the same order).
#pragma once

#include <cstdint>
#include <vector>

#include "core/spec/strategy.hpp"

namespace lockstep {

/// The degrees of expert parallelism, more than 1 and ascending, that expert_parallel_folding
/// allows for `experts` experts: all ranks of tp, or groups of them that divide each expert; with
/// those of cp; and with a part of dp_shard, too.
std::vector<int> folded_expert_degrees(const StrategySpec& strategy, std::int64_t experts);

}  // namespace lockstep
