#include "core/analysis/shards.hpp"

#include <algorithm>
#include <map>
#include <tuple>

namespace lockstep {
namespace {

/// For each unit, the buffer from which its update reads the gradient; invalid where no op updates
/// the unit.
std::vector<BufferId> reduced_gradients(const Role& role) {
  std::map<BufferId, std::size_t> unit_of;  // key: what the update writes, a whole or a piece
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    unit_of[role.units[u].updated()] = u;
    unit_of[role.units[u].states[StateKind::Moment1]] =
        u;  // Muon adds the gradient to it, and moves weights later
  }
  for (const Op& op : role.ops) {  // what lies on a drive is updated in a copy
    if (op.kind != OpKind::HostToDrive) continue;
    const auto home = unit_of.find(role.args_of(op)[1]);
    if (home != unit_of.end()) unit_of[role.args_of(op)[0]] = home->second;
  }
  std::vector<BufferId> gradients(role.units.size());
  for (const Op& op : role.ops) {
    if (op.kind != OpKind::Call || op.phase != Phase::O) continue;
    BufferId gradient;
    auto unit = unit_of.end();
    for (const BufferId arg : role.args_of(op)) {
      const BufferId root = role.root(arg);
      if (role.buffer(root).kind == BufferKind::Grad) gradient = arg;
      if (unit == unit_of.end()) unit = unit_of.find(root);
    }
    if (unit != unit_of.end() && gradient.valid()) gradients[unit->second] = gradient;
  }
  return gradients;
}

}  // namespace

RankShards shards_of(const Program& program, Rank rank) {
  RankShards shards;
  shards.rank = rank;
  for (std::size_t d = 0; d < program.mesh.dims.size(); ++d) {
    shards.coordinates.push_back(program.mesh.coordinate(rank, static_cast<int>(d)));
  }
  const Role& role = program.role_of(rank);
  const std::vector<BufferId> gradients = reduced_gradients(role);
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    const Unit& unit = role.units[u];
    const ElementRange whole{0, unit.elements};
    ElementRange piece = whole;
    if (unit.shard_group.valid()) {
      const int i = position(program.mesh, program.group(unit.shard_group), rank);
      piece.begin = std::min(unit.elements, i * unit.shard_elements);
      piece.end = std::min(unit.elements, piece.begin + unit.shard_elements);
    }
    UnitShard shard;
    shard.unit = u;
    for (const UnitParameter& p : unit.parameters) {
      shard.whole += held_elements(program.parameters[p.parameter], 1, p.sections);
    }
    if (unit.split_group.valid()) {
      shard.part = position(program.mesh, program.group(unit.split_group), rank);
      shard.parts = split_parts(program, unit);
    }
    shard.elements = unit.elements;
    shard.parameters = unit.whole_param ? whole : piece;
    if (gradients[u].valid()) {
      // Where the update reads a view, the rank keeps the whole gradients that the view lies in.
      shard.gradients = role.buffer(gradients[u]).is_view() ? whole : piece;
    }
    if (unit.trained()) shard.optimizer = piece;
    shards.parameters += shard.parameters.size();
    shards.gradients += shard.gradients.size();
    shards.optimizer += shard.optimizer.size();
    shards.units.push_back(shard);
  }
  return shards;
}

std::vector<GatheredUnit> gathered_at(const StepGraph& step, Rank rank,
                                      const std::vector<BufferLife>& lives, SimTime t) {
  const Role& role = step.program()->role_of(rank);
  std::map<std::int32_t, std::size_t> unit_of;  // a gathered copy has the name of the parameters
  for (std::size_t u = 0; u < role.units.size(); ++u) {
    unit_of[role.buffer(role.units[u].param()).name] = u;
  }
  std::vector<GatheredUnit> gathered;
  for (const BufferLife& life : lives) {
    if (life.from > t) break;
    if (life.kind != BufferKind::ParamFull || life.until <= t) continue;
    const auto unit = unit_of.find(role.buffer(life.buffer).name);
    if (unit == unit_of.end()) continue;
    gathered.push_back({unit->second, life.buffer, life.from, step[life.first].end, life.until});
  }
  std::sort(gathered.begin(), gathered.end(), [](const GatheredUnit& a, const GatheredUnit& b) {
    return std::tie(a.unit, a.from, a.buffer) < std::tie(b.unit, b.from, b.buffer);
  });
  return gathered;
}

}  // namespace lockstep
