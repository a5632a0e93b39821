// State transfer: copies the training state between the shards in the ranks' arenas and a
// TrainingState, which holds whole tensors by name.
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

/// A run of elements of a parameter in a rank's buffer of an FSDP unit: elements [begin, begin +
/// count) of the parameter lie at element `at` of the buffer.
struct ShardPiece {
  ParameterId parameter;
  std::int64_t begin = 0, count = 0, at = 0;
  bool operator==(const ShardPiece&) const = default;
};

/// What `rank` holds of `unit` in `buffer`, one of the unit's buffers of parameters or moments. The
/// pieces are in the order of the buffer; elements that no piece covers are padding.
std::vector<ShardPiece> shard_pieces(const Program& program, Rank rank, const Unit& unit,
                                     BufferId buffer);

/// Writes the rank's shards into its arena. Parameters come from `state`, or from the seed if it is
/// null, and are rounded where a master copy keeps them in full; moments come from `state` if it
/// holds any, else they are zero; padding is zero. Errors: InvalidSpec naming the tensor that is
/// missing or has another shape or type than the program; Unsupported for an element type that
/// initial values cannot be rounded to.
Result<void> load_state(const Program& program, Rank rank, Device& device, std::uint64_t seed,
                        const TrainingState* state);

/// The training state as whole tensors, put together from the shards of all ranks. Only the leader
/// gets the tensors; the state of the other processes has none. Every element is read from the
/// lowest rank that holds it, and tied copies of a parameter are left out. `ports` are those of
/// this process's ranks; all processes call it together.
Result<TrainingState> gather_state(const Program& program, std::span<const RankPort> ports,
                                   Process& process, int step);

}  // namespace lockstep
