// Shard: what the parts of data parallelism share. shard.cpp chooses, shard_ddp.cpp and
// shard_states.cpp do it.
#pragma once

#include <cstddef>
#include <limits>
#include <string_view>
#include <vector>

#include "core/lower/draft.hpp"

namespace lockstep {

inline constexpr std::size_t kNever = std::numeric_limits<std::size_t>::max();

/// All ranks of a stage whose gradients add up: replicas, shards, slices of sequences. Of units
/// that `split_axis` divides
/// ("ep", which is a part of the data axes): those that hold the same part.
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

Op collective(OpKind kind, Stream stream, GroupId group, int layer);
/// A copy between host memory and the device.
Op memory_copy(OpKind kind, int layer);
int layer_of(const DraftRole& draft, std::size_t unit);
/// The unit of that layout (Model::units), or kNever.
std::size_t unit_of(const DraftRole& draft, std::size_t layout);
inline const UnitLayout& layout_of(const Draft& draft, const DraftUnit& unit) {
  return draft.model.units[static_cast<std::size_t>(unit.layout)];
}

/// A unit's gradient of one microbatch, or of a group of them.
struct MicrobatchGradient {
  std::size_t unit = 0;
  BufferId buffer;
  std::size_t ready = 0;  // its last write
};
/// Gives each `group` of microbatches that follow each other gradients of its own, not added to
/// those before; the units' buffers go to the first. In the order in which they are ready.
std::vector<MicrobatchGradient> split_by_microbatch(Draft& draft, DraftRole& out, int group = 1);
/// "x" copied to "y" (cast if the types differ), or added to it.
FunctionId copy_function(Draft& draft, std::int64_t elements, DType from, DType to, bool add);

/// An update of the weights in the middle of a step.
struct WeightUpdate {
  std::size_t place = 0;            // before the op that now has this index
  std::vector<BufferId> gradients;  // by unit
  std::vector<Insertion> before;    // what goes ahead of it, at the same place
};
/// Pipelines that do not drain: lets every pass read the version of the weights that it should.
std::vector<WeightUpdate> version_weights(Draft& draft, DraftRole& out);

/// DDP: gradients all-reduced in buckets.
void all_reduce_buckets(Draft& draft, DraftRole& out);
/// ZeRO 1 to 3: optimizer states, gradients, parameters sharded.
void shard_states(Draft& draft, DraftRole& out);

}  // namespace lockstep
