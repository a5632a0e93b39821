// Data axes: over which ranks gradients are summed, states are sharded and copies are kept.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// All ranks of a stage whose gradients add up: replicas, shards, slices of sequences. Of units
/// that `split_axis` divides ("ep", which is a part of the data axes): those that hold the same
/// part.
GroupId data_group(Draft& draft, std::string_view split_axis = {});
/// Ranks that share the states of one replica, likewise.
GroupId shard_group(Draft& draft, std::string_view split_axis = {});
/// Ranks that hold copies of what a unit's rank updates; their gradients add up. With one replica
/// there is nothing to add and no group.
GroupId replica_group(Draft& draft, const UnitLayout& unit);
int replicas(const Draft& draft, const UnitLayout& unit);

/// The ranks at these coordinates along "pp", and equal ones along the others.
GroupId pipeline_group(Draft& draft, const std::vector<int>& coordinates);

/// For each unit, the last op that writes its gradient; kNever without one.
std::vector<std::size_t> last_gradient_write(const Program& program, const DraftRole& draft);

int layer_of(const DraftRole& draft, std::size_t unit);
/// The unit of that layout (Model::units), or kNever.
std::size_t unit_of(const DraftRole& draft, std::size_t layout);
inline const UnitLayout& layout_of(const Draft& draft, const DraftUnit& unit) {
  return draft.model.units[unit.layout];
}

/// Bytes of a shard of the unit, in the type of `like`; and of all shards.
Bytes shard_bytes(const Unit& unit, const Buffer& like);
Bytes full_bytes(const Program& program, const Unit& unit, const Buffer& like);

}  // namespace lockstep
