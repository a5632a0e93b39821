// State transfer: between the shards in the ranks' arenas and whole tensors by name.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/ir/program.hpp"
#include "core/ir/state.hpp"
#include "core/run/device.hpp"
#include "core/run/executor.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// Elements [begin, begin + count) of a parameter lie at element `at` of a rank's buffer of a unit.
struct ShardPiece {
  ParameterId parameter;
  std::int64_t begin = 0, count = 0, at = 0;
  bool operator==(const ShardPiece&) const = default;
};

/// What `rank` holds of `unit` in one of its buffers (parameters or moments), in order; what no
/// piece covers is padding.
std::vector<ShardPiece> shard_pieces(const Program& program, Rank rank, const Unit& unit,
                                     BufferId buffer);

/// Writes the rank's shards: parameters (rounded where a master copy keeps them) from `state`, or
/// from the seed without one; moments from `state` if it holds any, or zero; padding zero. Errors:
/// InvalidSpec naming the tensor that is missing or has another shape or type than the program;
/// Unsupported for an element type that initial values cannot be rounded to.
Result<void> load_state(const Program& program, Rank rank, Device& device, std::uint64_t seed,
                        const TrainingState* state);

/// Parameters and moments of all ranks, whole, in the leader of the processes; tensors nowhere
/// else. Every element is read from the lowest rank that holds it; tied copies are passed over.
/// Requires the ports of this process's ranks; all processes call it together.
Result<TrainingState> gather_state(const Program& program, std::span<const RankPort> ports,
                                   Process& process, int step);

}  // namespace lockstep
