// State transfer: copies the training state between the shards in the ranks' arenas and a
// TrainingState, which holds whole tensors by name.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/base/quantized_state.hpp"
#include "core/ir/program.hpp"
#include "core/ir/training_state.hpp"
#include "core/run/device.hpp"
#include "core/run/executor.hpp"
#include "core/run/process.hpp"
#include "core/run/rank_memory.hpp"
#include "core/run/shard_pieces.hpp"

namespace lockstep {

/// Whether a checkpoint has a state of a unit: all are there but parameters that are rounded from a
/// master copy.
inline bool is_saved(const Unit& unit, const StateRow& row) {
  return unit.has(row.kind) && (!row.is_parameters() || unit.states[row.kind] == unit.updated());
}

/// Writes the rank's shards into its arenas. Parameters come from `state`, or from the seed if it
/// is null, as those of adapters do if `state` lacks them, and are rounded where a master copy
/// keeps them in full, or where they are frozen in fewer digits; moments come from `state` if it
/// holds any, else they are zero; padding is zero. Replicas that train apart take the only one of a
/// state that has one, and the parameters as what they started from if it has no outer optimizer's.
/// A program with another number of replicas than the state takes the first one's, if they are
/// equal. Errors: InvalidSpec if they are not, or naming the tensor that is
/// missing or has another shape or type than the program; Unsupported for an element type that
/// initial values cannot be rounded to; those of reading.
Result<void> load_state(const Program& program, Rank rank, const RankMemory& memory,
                        std::uint64_t seed, const StateReader* state);

/// What is saved of a program's state: each parameter and its moments, as whole tensors. Tied
/// copies of a parameter are left out.
StateHead state_head(const Program& program, int step, std::int64_t samples);

/// A buffer of which `rank` saves `pieces`.
struct SavedBuffer {
  Rank rank = 0;
  std::string prefix;  // of the tensors' names: "", "adam_m.", …, "replica1.adam_m.", "feedback1."
  BufferId buffer;
  std::vector<ShardPiece> pieces;
  DType dtype = DType::F32;       // of its values in a TrainingState
  bool factors = false;           // whether pieces are right factors [cols, rank] of parameters
  QuantizedState quantized = {};  // as which the buffer holds them, if it has elements
  std::int64_t history = 0;       // Unit::history, if it is that
};
/// Everything that is saved, rank by rank: of every tensor each element once, from the lowest rank
/// that holds it.
std::vector<SavedBuffer> saved_buffers(const Program& program);

/// The training state as whole tensors, put together from the shards of all ranks. Only the leader
/// gets the tensors; the state of the other processes has none. `ports` are those of this process's
/// ranks; all processes call it together.
Result<TrainingState> gather_state(const Program& program, std::span<const RankPort> ports,
                                   Process& process, int step, std::int64_t samples = 0);

/// Puts pieces that another process sent into `state`, whose tensors have their sizes. Error
/// InvalidSpec for bytes that are no pieces of these tensors.
Result<void> place_pieces(std::span<const std::byte> bytes, TrainingState& state);

}  // namespace lockstep
