// pipeline: finds the order in which each pipeline rank runs its forward and backward passes.
#include <optional>

#include "core/lower/passes/passes.hpp"
#include "core/schedule/schedules.hpp"

namespace lockstep {
namespace {

/// Sets the times of each virtual stage: those that are given, or else the same for F, I and W,
/// proportional to the stage's work.
void measure_stages(const std::optional<CostsSpec>& costs, const Model& model,
                    const std::vector<StageLayers>& stages, PipelineShape& shape) {
  const auto given = [](const std::vector<double>& list, std::size_t s) {
    return list.size() == 1 ? list[0] : list[s];
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    if (costs) {
      shape.times.push_back({given(costs->forward, s), given(costs->backward_input, s),
                             given(costs->backward_weight, s)});
      continue;
    }
    double work = 0;
    for (int l = stages[s].first; l < stages[s].last; ++l) {
      work += model.layers[l].balance;
    }
    shape.times.push_back({work, work, work});
  }
  if (costs) shape.p2p = costs->p2p;
}

}  // namespace

Schedule pipeline(const Scenario& scenario, const Model& model,
                  const std::vector<StageLayers>& stages) {
  const StrategySpec& strategy = scenario.strategy;
  if (!strategy.pipeline_parallel_schedule_actions.empty()) {
    return strategy.pipeline_parallel_schedule_actions;
  }
  PipelineShape shape;
  shape.p = strategy.pipeline_parallel_degree;
  shape.v = strategy.pipeline_parallel_virtual_stages;
  shape.m = scenario.num_microbatches();
  shape.group =
      interleave_group(strategy.pipeline_parallel_microbatch_group_size, shape.p, shape.m);
  shape.kept_after_input = strategy.pipeline_parallel_kept_after_input;
  measure_stages(scenario.costs, model, stages, shape);
  const ScheduleRules& rules = rules_of(strategy.pipeline_parallel_schedule);
  if (strategy.vocabulary_stages() == 1) return generate(rules, shape);
  shape.lag = strategy.vocabulary_parallel_lag;
  return with_vocabulary(generate(rules, shape), shape);
}

}  // namespace lockstep
