#include "core/lower/draft/data_axes.hpp"

#include <algorithm>
#include <string>

#include "core/base/index_vector.hpp"
#include "core/base/quantized_state.hpp"

namespace lockstep {

namespace {

using Dims = std::vector<std::string_view>;

/// The axes over which states are sharded, for units that `split_axis` divides; an empty
/// `split_axis` stands for units that no axis divides.
Dims shard_dims(const Draft& draft, std::string_view split_axis) {
  const StrategySpec& strategy = draft.scenario.strategy;
  Dims dims;
  if (strategy.data_parallel_shard_degree > 1) dims.emplace_back("dp_shard");
  if (strategy.inner_shards() > 1) dims.emplace_back("dp_reshard");
  if (strategy.experts_over_shards() > 1) dims.emplace_back("ep");
  for (const std::string_view dim : {"cp", "cp_heads"}) {
    if (draft.program.mesh.size_of(dim) > 1) dims.emplace_back(dim);
  }
  if (divides_experts(split_axis)) {
    const Dims parts = draft.axis_dims(split_axis);
    std::erase_if(dims, [&](std::string_view dim) {
      return std::find(parts.begin(), parts.end(), dim) != parts.end();
    });
  }
  return dims;
}

Dims data_dims(const Draft& draft, std::string_view split_axis) {
  Dims dims = shard_dims(draft, split_axis);
  if (draft.scenario.strategy.synchronous_replicas() > 1) {
    dims.insert(dims.begin(), "dp_replicate");
  }
  return dims;
}

/// The axes whose ranks hold copies of what a rank of the unit updates, so that their gradients are
/// summed.
Dims replica_dims(const Draft& draft, const UnitLayout& unit) {
  Dims dims = data_dims(draft, unit.split_axis);
  if (unit.shard_count > 1) {
    dims.clear();
    if (draft.scenario.strategy.synchronous_replicas() > 1) {
      dims.emplace_back("dp_replicate");
    }
  }
  for (const std::string& axis : unit.partial_axes) {
    const Dims more = draft.axis_dims(axis);
    dims.insert(dims.end(), more.begin(), more.end());
  }
  return dims;
}

}  // namespace

GroupId data_group(Draft& draft, std::string_view split_axis) {
  const StrategySpec& strategy = draft.scenario.strategy;
  return draft.group(divides_experts(split_axis)            ? "expert_dp"
                     : strategy.context_parallel_degree > 1 ? "dp_cp"
                                                            : "dp",
                     data_dims(draft, split_axis));
}

GroupId shard_group(Draft& draft, std::string_view split_axis) {
  const StrategySpec& strategy = draft.scenario.strategy;
  if (strategy.state_replicas() == 1) return data_group(draft, split_axis);
  return draft.group(divides_experts(split_axis)            ? "expert_dp_shard"
                     : strategy.context_parallel_degree > 1 ? "dp_shard_cp"
                                                            : "dp_shard",
                     shard_dims(draft, split_axis));
}

GroupId apart_group(Draft& draft) { return draft.group("dp_replicate", {"dp_replicate"}); }

GroupId replica_group(Draft& draft, const UnitLayout& unit) {
  const Dims dims = replica_dims(draft, unit);
  if (dims == data_dims(draft, unit.split_axis)) {
    return data_group(draft, unit.split_axis);
  }
  std::string name;  // "dp_replicate", "tp", "dp_replicate+tp"
  for (const std::string_view dim : dims) name += (name.empty() ? "" : "+") + std::string(dim);
  return draft.group(name, dims);
}

int replicas(const Draft& draft, const UnitLayout& unit) {
  int count = 1;
  for (const std::string_view dim : replica_dims(draft, unit)) {
    count *= draft.program.mesh.size_of(dim);
  }
  return count;
}

bool keeps_whole(const Draft& draft, const UnitLayout& unit) {
  const StrategySpec& strategy = draft.scenario.strategy;
  return unit.shard_count > 1 &&
         (strategy.zero_stage < 3 || unit.elements <= strategy.fsdp_persistence_threshold);
}

std::vector<std::size_t> last_gradient_write(const Program& program, const DraftRole& draft) {
  const Role& role = draft.role;
  IndexVector<BufferId, int> unit_of(role.buffers.size(), -1);
  std::size_t trained = 0;
  for (std::size_t u = 0; u < draft.units.size(); ++u) {
    if (!draft.units[u].trained()) continue;
    unit_of[draft.units[u].grad] = static_cast<int>(u);
    ++trained;
  }
  IndexVector<int, std::size_t> last(draft.units.size(), kNever);
  for (std::size_t i = role.ops.size(), left = trained; i-- > 0 && left > 0;) {
    const auto args = role.args_of(role.ops[i]);
    for (std::size_t a = 0; a < args.size(); ++a) {
      const int unit = unit_of[args[a]];
      if (unit < 0 || last[unit] != kNever) continue;
      if (access(program, role.ops[i], a) == Access::Read) continue;
      last[unit] = i;
      --left;
    }
  }
  return last;
}

std::size_t unit_of(const DraftRole& draft, std::size_t layout) {
  for (std::size_t u = 0; u < draft.units.size(); ++u) {
    if (draft.units[u].layout == static_cast<int>(layout)) return u;
  }
  return kNever;
}

int layer_of(const DraftRole& draft, std::size_t unit) {
  return draft.role.buffer(draft.role.units[unit].param()).layer;
}

GroupId pipeline_group(Draft& draft, const std::vector<int>& coordinates) {
  std::string name = draft.schedule.copies > 1 ? "copies" : "embed";
  if (draft.schedule.copies > 1) {
    for (const int c : coordinates) name += "." + std::to_string(c);
  }
  return draft.group(name, {"pp"}, coordinates);
}

Bytes shard_bytes(const Unit& unit, const Buffer& like) {
  if (like.kind == BufferKind::Optimizer && unit.state_block > 0) {
    return Bytes{quantized_bytes(unit.shard_elements, unit.state_block)};
  }
  const bool history = like.kind == BufferKind::Optimizer && unit.history > 0;
  return Bytes{unit.shard_elements * (history ? unit.history : 1) * size_of(like.dtype)};
}

Bytes full_bytes(const Program& program, const Unit& unit, const Buffer& like) {
  const Bytes shard = shard_bytes(unit, like);
  if (!unit.shard_group.valid()) return shard;
  return group_size(program.mesh, program.group(unit.shard_group)) * shard;
}

}  // namespace lockstep
