#include "core/campaign/checkpoint_size.hpp"

#include <algorithm>
#include <cstdint>
#include <set>
#include <utility>

namespace lockstep {
namespace {

/// Whether a checkpoint has the state: all but parameters that are rounded from a master copy, and
/// what each rank keeps for itself.
bool is_saved(const Unit& unit, const StateRow& row) {
  if (row.extent == Extent::Factors || row.holder == Holder::Rank) return false;
  return !row.is_parameters() || unit.states[row.kind] == unit.updated();
}

/// Quantized states are saved as float32, which holds them exactly.
std::int64_t saved_bytes(const Buffer& buffer) {
  return size_of(buffer.dtype == DType::U8 ? DType::F32 : buffer.dtype);
}

}  // namespace

CheckpointSize checkpoint_size(const Program& program) {
  CheckpointSize size;
  // A parameter that units of several ranks have parts of is counted whole, once for each state.
  std::set<std::pair<ParameterId, StateKind>> counted;
  for (const Role& role : program.roles) {
    std::int64_t own = 0;
    for (const Unit& unit : role.units) {
      if (unit.tied_copy) continue;
      unit.each_state([&](const StateRow& row, BufferId buffer) {
        if (!is_saved(unit, row)) return;
        const std::int64_t bytes = saved_bytes(role.buffer(buffer));
        own += unit.shard_elements * bytes;
        for (const UnitParameter& held : unit.parameters) {
          if (!counted.insert({held.parameter, row.kind}).second) continue;
          size.whole.v += program.parameters[held.parameter].elements() * bytes;
        }
      });
    }
    size.fullest_rank.v = std::max(size.fullest_rank.v, own);
  }
  return size;
}

}  // namespace lockstep
