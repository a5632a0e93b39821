// shard: divides states over the data-parallel ranks, as ZeRO does (Rajbhandari et al. 2020). Every
// stage divides the states of the optimizer, so that each rank updates one shard of a unit's
// parameters. Stages 1 and 2 keep parameters whole, stage 3 (FSDP, Zhao et al. 2023) keeps the
// shard only.
#include "core/lower/draft/data_axes.hpp"
#include "core/lower/passes/passes.hpp"

namespace lockstep {
namespace {

void divide(Draft& draft, DraftRole& out, std::size_t u) {
  Role& role = out.role;
  const UnitLayout& layout = layout_of(draft, out.units[u]);
  const StrategySpec& strategy = draft.scenario.strategy;
  Unit& unit = role.units[u];
  if (layout.shard_count > 1) {  // it is 1 for experts that no other rank holds
    unit.shard_elements = layout.shard_elements();
    unit.shard_group = shard_group(draft, layout.split_axis);
    unit.whole_param = keeps_whole(draft, layout);
    unit.gathered_late = unit.whole_param && strategy.overlap_param_gather && !unit.frozen;
  }
  const auto resize = [&](BufferId state, Extent extent) {
    Buffer& buffer = role.buffers[state];
    const bool whole = unit.whole_param && extent == Extent::Held;
    buffer.bytes = whole ? full_bytes(draft.program, unit, buffer) : shard_bytes(unit, buffer);
  };
  unit.each_state([&](const StateRow& row, BufferId state) { resize(state, row.extent); });
  if (out.units[u].on_host.valid()) resize(out.units[u].on_host, Extent::Shard);
}

}  // namespace

void shard(Draft& draft) {
  if (draft.scenario.strategy.state_shards() == 1) return;
  for (DraftRole& out : draft.roles) {
    for (std::size_t u = 0; u < out.units.size(); ++u) divide(draft, out, u);
  }
}

}  // namespace lockstep
