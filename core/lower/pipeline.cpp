// pipeline: the order in which each pipeline rank runs its forward and backward passes.
#include <array>

#include "core/lower/draft.hpp"
#include "core/lower/schedules.hpp"

namespace lockstep {
namespace {

/// By PipelineSchedule.
constexpr std::array<RankSchedule, kSchedules.size()> kRankSchedules = {
    gpipe,      one_f_one_b, interleaved_1f1b,        looped_bfs,
    zb_h1,      zb_h2,       interleaved_zero_bubble, zbv_zero_bubble,
    dual_pipe_v};

}  // namespace

void pipeline(Draft& draft) {
  const StrategySpec& strategy = draft.scenario.strategy;
  if (!strategy.pipeline_parallel_schedule_actions.empty()) {
    draft.schedule = strategy.pipeline_parallel_schedule_actions;
    return;
  }
  PipelineShape shape;
  shape.p = strategy.pipeline_parallel_degree;
  shape.v = strategy.pipeline_parallel_virtual_stages;
  shape.m = draft.scenario.num_microbatches();
  shape.group =
      interleave_group(strategy.pipeline_parallel_microbatch_group_size, shape.p, shape.m);
  const ScheduleRules& rules = rules_of(strategy.pipeline_parallel_schedule);
  draft.schedule = {place_stages(rules.placement, shape.p, shape.v), {}};
  const RankSchedule actions_of = kRankSchedules[static_cast<std::size_t>(rules.schedule)];
  for (int r = 0; r < shape.p; ++r) draft.schedule.actions.push_back(actions_of(shape, r));
}

std::string print_schedule(const Draft& draft) {
  std::string text;
  for (std::size_t r = 0; r < draft.schedule.actions.size(); ++r) {
    text += "pp" + std::to_string(r) + ":";
    for (const std::string& cell : to_cells(draft.schedule.actions[r])) text += " " + cell;
    text += "\n";
  }
  return text;
}

}  // namespace lockstep
