// Data axes: the ranks over which gradients are summed, states are sharded, and copies are kept.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "core/lower/draft/draft.hpp"

namespace lockstep {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// All ranks of a stage whose gradients are summed: replicas, shards and slices of sequences. For
/// units that `split_axis` divides ("ep", which is a part of the data axes), those that hold the
/// same part.
GroupId data_group(Draft& draft, std::string_view split_axis = {});
/// The ranks that share the states of one replica; `split_axis` as for data_group().
GroupId shard_group(Draft& draft, std::string_view split_axis = {});
/// The ranks that hold copies of what a rank of the unit updates, and whose gradients are summed.
/// With one replica there is nothing to sum, and the group is invalid.
GroupId replica_group(Draft& draft, const UnitLayout& unit);
int replicas(const Draft& draft, const UnitLayout& unit);
/// The ranks that hold the same part of replicas that train apart.
GroupId apart_group(Draft& draft);

/// The ranks at these coordinates along "pp", with equal coordinates along all other dimensions.
GroupId pipeline_group(Draft& draft, const std::vector<int>& coordinates);

/// For each unit, the last op that writes its gradient; kNever if there is none.
std::vector<std::size_t> last_gradient_write(const Program& program, const DraftRole& draft);

int layer_of(const DraftRole& draft, std::size_t unit);
/// The role's unit that has that layout (index into Model::units), or kNever.
std::size_t unit_of(const DraftRole& draft, std::size_t layout);
inline const UnitLayout& layout_of(const Draft& draft, const DraftUnit& unit) {
  return draft.model.units[unit.layout];
}

/// Whether ranks and microbatches take the largest of what they have measured, and not the sum.
inline bool takes_largest(const UnitLayout& unit) { return unit.moved_by == MovedBy::DelayedScale; }

/// Whether every rank holds all parameters of a sharded unit, as ZeRO-1 and ZeRO-2 have it, and
/// with ZeRO-3 small units.
bool keeps_whole(const Draft& draft, const UnitLayout& unit);

/// The bytes of a shard of the unit, in the type of `like`, and those of all shards.
Bytes shard_bytes(const Unit& unit, const Buffer& like);
Bytes full_bytes(const Program& program, const Unit& unit, const Buffer& like);

}  // namespace lockstep
