#include "core/plan/estimate/stage_costs.hpp"

#include <algorithm>
#include <array>

#include "core/plan/estimate/posted_run.hpp"
#include "core/plan/estimate/reduced.hpp"

namespace lockstep {
namespace {

/// The times of one action in a probe, from the ops of its role.
ActionTime action_time(const Probe& probe, RoleId role_id, Phase phase, Microbatch microbatch) {
  const Role& role = probe.program.roles[role_id];
  const auto& times = probe.times[role_id];
  ActionTime time;
  double begin = -1, early_begin = -1, early_end = -1, busy_end = 0, end = 0;
  for (const OpId id : role.ops.ids()) {
    const Op& op = role.ops[id];
    const bool recomputes = op.phase == Phase::R && (phase == Phase::B || phase == Phase::I);
    if (op.microbatch != microbatch || (op.phase != phase && !recomputes)) continue;
    if (op.stream != Stream::Compute && op.stream != Stream::Layer) continue;
    const OpInterval& t = times[id];
    if (begin < 0 && recomputes) {
      if (early_begin < 0) early_begin = t.begin.v;
      early_end = std::max(early_end, t.end.v);
      continue;
    }
    if (op.stream == Stream::Layer && begin < 0) {
      time.lead += (t.end - t.begin).v;
      continue;
    }
    if (begin < 0) begin = t.begin.v;
    if (op.stream == Stream::Layer) time.layer = t.end.v - begin;
    if (op.stream == Stream::Compute) busy_end = std::max(busy_end, t.end.v);
    end = std::max(end, t.end.v);
  }
  if (begin < 0) return time;
  if (early_begin >= 0) time.early = early_end - early_begin;
  time.busy = busy_end - begin;
  time.result = end - begin;
  return time;
}

/// The time of a message of `phase` that a role receives.
MessageTime message_time(const Probe& probe, RoleId sender, RoleId receiver, bool forward,
                         Microbatch microbatch) {
  MessageTime time;
  const auto seconds = [&](RoleId role_id, OpKind kind) {
    const Role& role = probe.program.roles[role_id];
    for (const OpId id : role.ops.ids()) {
      const Op& op = role.ops[id];
      const bool towards_end = op.phase == Phase::F;
      if (op.kind != kind || op.microbatch != microbatch || towards_end != forward) continue;
      const RoleId peer{op.peer()};
      if (peer != (kind == OpKind::Send ? receiver : sender)) continue;
      return (probe.times[role_id][id].end - probe.times[role_id][id].begin).v;
    }
    return 0.0;
  };
  time.busy = seconds(sender, OpKind::Send);
  time.arrival = seconds(receiver, OpKind::Recv);
  return time;
}

/// The end of the last op of a probe that does not belong to the update.
double end_of_passes(const Probe& probe) {
  double end = 0;
  for (const RoleId role : probe.program.roles.ids()) {
    for (const OpId id : probe.program.roles[role].ops.ids()) {
      const Phase phase = probe.program.roles[role].ops[id].phase;
      if (phase == Phase::O || phase == Phase::S) continue;
      end = std::max(end, probe.times[role][id].end.v);
    }
  }
  return end;
}

constexpr Microbatch kTypical = 1;  // neither the first microbatch nor the last of three

/// The costs of a probe's own pipeline.
PipelineCost cost_of_probe(const Probe& probe, bool split) {
  PipelineCost cost;
  const auto stages = static_cast<int>(probe.program.roles.size());
  for (int s = 0; s < stages; ++s) {
    const RoleId role{s};
    StageCost stage;
    stage.forward = action_time(probe, role, Phase::F, kTypical);
    if (split) {
      stage.input = action_time(probe, role, Phase::I, kTypical);
      stage.weight = action_time(probe, role, Phase::W, kTypical);
    } else {
      stage.backward = action_time(probe, role, Phase::B, kTypical);
    }
    cost.stages.push_back(stage);
    if (s + 1 == stages) continue;
    cost.forward.push_back(message_time(probe, role, RoleId{s + 1}, true, kTypical));
    cost.backward.push_back(message_time(probe, RoleId{s + 1}, role, false, kTypical));
  }
  return cost;
}

ActionTime between(const ActionTime& low, const ActionTime& high, double t) {
  const auto mix = [t](double a, double b) { return std::max(0.0, a + (b - a) * t); };
  return {mix(low.early, high.early), mix(low.lead, high.lead), mix(low.busy, high.busy),
          mix(low.layer, high.layer), mix(low.result, high.result)};
}

constexpr int kMicrobatches = 3;

/// The unit of a role that has most elements and is of no block: the table of an end.
const Unit* table_of(const Probe& probe, RoleId role_id) {
  const Unit* table = nullptr;
  for (const Unit& unit : probe.program.roles[role_id].units) {
    if (unit.parameters.empty()) continue;
    const Parameter& first = probe.program.parameters[unit.parameters.front().parameter];
    if (first.name.starts_with("blocks.")) continue;
    if (table == nullptr || unit.elements > table->elements) table = &unit;
  }
  return table;
}

/// What a unit keeps on the device all the time.
double states_of(const Unit& unit, const Role& role) {
  double bytes = 0;
  unit.each_state([&](const StateRow& row, BufferId id) {
    const Buffer& buffer = role.buffer(id);
    const bool counted = row.keeper == Keeper::Model || row.keeper == Keeper::Optimizer;
    if (counted && buffer.tier == Tier::Device) bytes += static_cast<double>(buffer.bytes.v);
  });
  return bytes;
}

/// How many blocks the stages of the smallest probe have. The first block of a stage is not
/// typical, because what is gathered ahead of it, and what is reduced after it, has nothing to hide
/// behind. Blocks at the begin and at the end that are like no others lie on the first and the last
/// stage.
int least_blocks(const Scenario& layout) {
  const int period = period_of_blocks(layout);
  const int after = (blocks_after_period(layout) + period - 1) / period * period;
  return std::max(blocks_before_period(layout), after) + period * ((1 + period) / period);
}

int stages_of_probe(const Scenario& layout) { return std::min(3, layout.strategy.num_stages()); }

}  // namespace

double StageMemory::most(StepPart part, double blocks) const {
  double bytes = 0;
  for (const ByBlocks& place : rest[part]) bytes = std::max(bytes, place.at(blocks));
  return bytes;
}

StageCost StageCosts::stage(int kind, int blocks) const {
  const StageCost &a = at_low.stages[kind], &b = at_high.stages[kind];
  const double t = static_cast<double>(blocks - low) / (high - low);
  return {between(a.forward, b.forward, t),
          between(a.backward, b.backward, t),
          between(a.input, b.input, t),
          between(a.weight, b.weight, t),
          std::max(0.0, memory[kind].kept.at(blocks)),
          std::max(0.0, memory[kind].pending.at(blocks))};
}

Scenario smallest_probe(const Scenario& layout) {
  return reduced_pipeline(layout, stages_of_probe(layout), least_blocks(layout), kMicrobatches);
}

Result<StageCosts> stage_costs(const Scenario& layout, const Prober& prober) {
  const int stages = stages_of_probe(layout);
  const bool split = splits_backward(layout);
  const bool gathers = layout.strategy.zero_stage == 3 && layout.strategy.state_shards() > 1;
  const bool grow = split || gathers;
  StageCosts costs;
  costs.low = least_blocks(layout);
  costs.high = costs.low + period_of_blocks(layout);
  const double more = costs.high - costs.low;
  const auto linear = [&](double at_low, double at_high) {
    const double slope = (at_high - at_low) / more;
    return ByBlocks{at_low - slope * costs.low, slope};
  };
  std::array<double, 2> around{}, update{};         // by number of blocks
  std::array<std::vector<RoleMemory>, 2> memories;  // likewise, then by kind
  for (const bool many : {false, true}) {
    const Result<Probe> probe =
        prober(reduced_pipeline(layout, stages, many ? costs.high : costs.low, kMicrobatches));
    if (!probe) return probe.error();
    PipelineCost& cost = many ? costs.at_high : costs.at_low;
    cost = cost_of_probe(*probe, split);
    const double passes = end_of_passes(*probe);
    const auto run =
        run_as_posted(probe_schedule(stages, kMicrobatches, split), cost, layout.strategy);
    around[many] = run ? passes - run->makespan : 0;
    update[many] = probe->step.v - passes;
    const RoleId last{stages - 1};
    if (const Unit* table = has_tied_ends(layout) ? table_of(*probe, last) : nullptr) {
      costs.table = states_of(*table, probe->program.roles[last]);
      costs.table_gradient =
          static_cast<double>(table->elements * size_of(layout.training.reduce_dtype()));
    }
    for (int kind = 0; kind < stages; ++kind) {
      memories[many].push_back(role_memory(*probe, RoleId{kind}, layout.cluster.framework));
    }
  }
  costs.around = linear(around[0], around[1]);
  costs.update = linear(update[0], update[1]);
  for (int kind = 0; kind < stages; ++kind) {
    const RoleMemory &low = memories[0][to_size(kind)], &high = memories[1][to_size(kind)];
    StageMemory memory{{},
                       linear(low.kept, high.kept),
                       linear(low.pending, high.pending),
                       {std::max(low.holes, high.holes), 0}};
    if (grow && high.holes > low.holes) memory.holes = linear(low.holes, high.holes);
    for (int i = 0; i < kNumStepParts; ++i) {
      const auto part = static_cast<StepPart>(i);
      // How many microbatches are in flight at the fullest moment of that part.
      const int in_flight = part == StepPart::Update         ? 0
                            : part == StepPart::LastBackward ? 1
                                                             : kMicrobatches;
      for (int j = 0; j < kNumLayerPlaces; ++j) {
        const auto place = static_cast<LayerPlace>(j);
        // While I passes follow each other, what is in flight goes from what F keeps to what W
        // needs: the fullest moment is at either end.
        const auto rest = [&](const RoleMemory& m) {
          const double each = !split || part == StepPart::Forward ? m.kept
                              : part == StepPart::LastBackward    ? m.pending
                                                                  : std::max(m.kept, m.pending);
          return m.needed[part][place] - in_flight * each;
        };
        memory.rest[part][place] = linear(rest(low), rest(high));
      }
    }
    costs.memory.push_back(memory);
  }
  return costs;
}

}  // namespace lockstep
