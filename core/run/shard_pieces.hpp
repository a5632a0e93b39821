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

/// What `rank` holds of `unit` in the buffer of one of its states. The pieces are in the order of
/// the buffer; elements that no piece covers are padding. Of a state with a history the elements
/// are those of the history; of right factors a piece is the whole factor of a parameter.
std::vector<ShardPiece> shard_pieces(const Program& program, Rank rank, const Unit& unit,
                                     StateKind kind);

}  // namespace lockstep
