// Shard pieces: which elements of parameters a rank holds in which of its buffers.
#pragma once

#include <cstdint>
#include <vector>

#include "core/ir/program.hpp"

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

/// Whether a buffer holds a history of each element (Unit::history), which are pieces of it then.
bool keeps_history(const Unit& unit, BufferId buffer);

}  // namespace lockstep
