#include "core/lower/passes/declare.hpp"

#include <string>
#include <utility>

#include "core/lower/draft/data_axes.hpp"
#include "core/lower/update/update_rule.hpp"

namespace lockstep {
namespace {

/// The first layer of the rank that uses a unit, and the rank that counts the unit in norms.
struct UnitUse {
  int layer = -1, owner = -1;
};

IndexVector<int, UnitUse> uses_of_units(const Draft& draft, int coordinate) {
  IndexVector<int, UnitUse> uses(draft.model.units.size());
  const Schedule& schedule = draft.schedule;
  for (Stage s = 0; s < static_cast<Stage>(draft.stages.size()); ++s) {
    for (int l = draft.stages[s].first; l < draft.stages[s].last; ++l) {
      for (const LayerUnit& unit : draft.model.layers[l].units) {
        UnitUse& use = uses[unit.unit];
        if (use.owner < 0) use.owner = schedule.on_every_rank(s) ? 0 : schedule.rank_of_stage[s];
        if (use.layer < 0 && runs_stage(schedule, s, coordinate)) use.layer = l;
      }
    }
  }
  return uses;
}

/// A unit with the parameters of its layout, and no buffers.
Unit unit_of(Draft& draft, const UnitLayout& layout) {
  Unit unit;
  unit.name = layout.name;
  unit.elements = unit.shard_elements = layout.elements;
  unit.frozen = layout.frozen;
  if (!layout.split_axis.empty()) unit.split_group = draft.axis_group(layout.split_axis);
  for (std::size_t i = 0; i < layout.parameters.size(); ++i) {
    unit.parameters.push_back(
        {draft.parameter(layout.parameters[i].name), layout.offsets[i], layout.sections[i]});
  }
  return unit;
}

}  // namespace

BufferId declare_buffer(Draft& draft, Role& role, BufferKind kind, std::string_view name,
                        std::int64_t bytes, int layer, Microbatch microbatch) {
  Buffer buffer;
  buffer.bytes = Bytes{bytes};
  buffer.kind = kind;
  buffer.dtype = draft.dtype_of(kind);
  buffer.layer = static_cast<std::int16_t>(layer);
  buffer.microbatch = microbatch;
  buffer.name = draft.name(name);
  return add_buffer(role, buffer);
}

IndexVector<int, int> declare_units(Draft& draft, DraftRole& out, int coordinate) {
  const IndexVector<int, UnitUse> uses = uses_of_units(draft, coordinate);
  IndexVector<int, int> unit_of_layout(draft.model.units.size(), -1);
  for (std::size_t u = 0; u < draft.model.units.size(); ++u) {
    const UnitUse use = uses[u];
    if (use.layer < 0) continue;
    const UnitLayout& layout = draft.model.units[u];
    Unit unit = unit_of(draft, layout);
    const bool own_part = layout.split_axis == "vocabulary";  // of what all pipeline ranks divide
    unit.tied_copy = use.owner != coordinate && !own_part;
    const UpdateRule& rule = rule_of(draft.scenario.optimizer, layout);
    if (!layout.frozen && rule.describe != nullptr) rule.describe(draft.scenario, layout, unit);
    const auto add_state = [&](BufferKind kind, const std::string& name) {
      const BufferId state = declare_buffer(draft, out.role, kind, name, 0, use.layer);
      Buffer& buffer = out.role.buffers[state];
      if (buffer.dtype == DType::U8 && unit.state_block == 0) {
        buffer.dtype = draft.dtype_of(BufferKind::Master);
      }
      // Scales are powers of two, some of which float16 has not.
      if (unit.history > 0 && kind != BufferKind::Optimizer) {
        buffer.dtype = sum_type(draft.dtype_of(BufferKind::Param));
      }
      buffer.bytes = shard_bytes(unit, buffer);
      return state;
    };
    unit.states[StateKind::Param] = add_state(BufferKind::Param, layout.name);
    DraftUnit draft_unit;
    draft_unit.layout = static_cast<int>(u);
    const auto add_states = [&] {
      if (draft.scenario.training.keeps_master()) {
        unit.states[StateKind::Master] = add_state(BufferKind::Master, layout.name + ".master");
      } else if (const Offload what = draft.scenario.strategy.offload;
                 what == Offload::Optimizer ||
                 (what == Offload::Parameters && keeps_whole(draft, layout))) {
        // Where the parameters stay on the device, a copy that the host updates.
        draft_unit.on_host = add_state(BufferKind::Master, layout.name + ".master");
      }
      for (const StateKind kind : rule.keeps(draft.scenario.optimizer)) {
        const char* const suffix = kind == StateKind::Moment1 ? ".m" : ".v";
        unit.states[kind] = add_state(BufferKind::Optimizer, layout.name + suffix);
      }
      draft_unit.grad = draft_unit.reduced =
          declare_buffer(draft, out.role, BufferKind::Grad, layout.name + ".grad",
                         layout.padded() * size_of(draft.dtype_of(BufferKind::Grad)), use.layer);
    };
    if (!layout.frozen) add_states();
    unit_of_layout[u] = static_cast<int>(out.units.size());
    out.units.push_back(draft_unit);
    out.role.units.push_back(std::move(unit));
  }
  return unit_of_layout;
}

IndexVector<int, BufferId> declare_statistics(Draft& draft, DraftRole& out, int coordinate) {
  const DType type = draft.scenario.training.buffer_dtype();
  IndexVector<int, BufferId> statistics(draft.model.layers.size());
  for (Stage s = 0; s < static_cast<Stage>(draft.stages.size()); ++s) {
    if (!runs_stage(draft.schedule, s, coordinate)) continue;
    for (int l = draft.stages[s].first; l < draft.stages[s].last; ++l) {
      const Layer& layer = draft.model.layers[l];
      BufferId& kept = statistics[l];
      if (layer.statistics < 0 || kept.valid()) continue;
      const UnitLayout& layout = draft.model.statistics[layer.statistics];
      Unit unit = unit_of(draft, layout);
      kept = unit.states[StateKind::Param] = declare_buffer(
          draft, out.role, BufferKind::Param, layout.name, layout.elements * size_of(type), l);
      out.role.buffers[kept].dtype = type;
      out.statistics.push_back(std::move(unit));
    }
  }
  return statistics;
}

}  // namespace lockstep
