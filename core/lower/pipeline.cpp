// pipeline: the order in which each pipeline rank runs its forward and backward passes.
#include <array>
#include <optional>

#include "core/lower/draft.hpp"
#include "core/schedule/generators.hpp"

namespace lockstep {
namespace {

using Scheduler = std::vector<Actions> (*)(const PipelineShape&);

template <RankSchedule of_rank>
std::vector<Actions> by_rank(const PipelineShape& shape) {
  std::vector<Actions> all;
  for (int r = 0; r < shape.p; ++r) all.push_back(of_rank(shape, r));
  return all;
}

/// By PipelineSchedule.
constexpr std::array<Scheduler, kSchedules.size()> kSchedulers = {
    by_rank<gpipe>,
    by_rank<one_f_one_b>,
    by_rank<interleaved_1f1b>,
    by_rank<looped_bfs>,
    by_rank<zb_h1>,
    by_rank<zb_h2>,
    by_rank<interleaved_zero_bubble>,
    by_rank<zbv_zero_bubble>,
    by_rank<dual_pipe_v>,
    zb_1p,
    zb_2p,
    by_rank<dual_pipe>,
    v_half,
    v_min,
    by_rank<one_f_one_b>,
    by_rank<one_f_one_b>,
    zb_v,
};

/// Times of each virtual stage: as given, or F, I and W alike by the stage's work.
void measure_stages(const Draft& draft, PipelineShape& shape) {
  const std::optional<CostsSpec>& costs = draft.scenario.costs;
  const auto given = [](const std::vector<double>& list, std::size_t s) {
    return list.size() == 1 ? list[0] : list[s];
  };
  for (std::size_t s = 0; s < draft.stages.size(); ++s) {
    if (costs) {
      shape.times.push_back({given(costs->forward, s), given(costs->backward_input, s),
                             given(costs->backward_weight, s)});
      continue;
    }
    double work = 0;
    for (int l = draft.stages[s].first; l < draft.stages[s].last; ++l) {
      work += draft.model.layers[static_cast<std::size_t>(l)].balance;
    }
    shape.times.push_back({work, work, work});
  }
  if (costs) shape.p2p = costs->p2p;
}

/// The stages of every copy of the model hold the same layers.
void repeat_stages(Draft& draft) {
  const std::vector<StageLayers> stages = draft.stages;
  for (int copy = 1; copy < draft.schedule.copies; ++copy) {
    draft.stages.insert(draft.stages.end(), stages.begin(), stages.end());
  }
}

}  // namespace

void pipeline(Draft& draft) {
  const StrategySpec& strategy = draft.scenario.strategy;
  if (!strategy.pipeline_parallel_schedule_actions.empty()) {
    draft.schedule = strategy.pipeline_parallel_schedule_actions;
    repeat_stages(draft);
    return;
  }
  PipelineShape shape;
  shape.p = strategy.pipeline_parallel_degree;
  shape.v = strategy.pipeline_parallel_virtual_stages;
  shape.m = draft.scenario.num_microbatches();
  shape.group =
      interleave_group(strategy.pipeline_parallel_microbatch_group_size, shape.p, shape.m);
  const ScheduleRules& rules = rules_of(strategy.pipeline_parallel_schedule);
  shape.kept_after_input = strategy.pipeline_parallel_kept_after_input;
  measure_stages(draft, shape);
  draft.schedule = {place_stages(rules.placement, shape.p, rules.copies * shape.v),
                    kSchedulers[static_cast<std::size_t>(rules.schedule)](shape), rules.copies};
  repeat_stages(draft);
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
