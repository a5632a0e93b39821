// pipeline: the order in which each pipeline rank runs its forward and backward passes.
#include <algorithm>

#include "core/lower/draft.hpp"

namespace lockstep {
namespace {

using Actions = std::vector<Action>;

/// Huang et al. 2019: all forward passes, then all backward passes, both in microbatch order.
Actions gpipe(int stage, int m) {
  Actions actions;
  for (int i = 0; i < m; ++i) actions.push_back({Phase::F, stage, i});
  for (int i = 0; i < m; ++i) actions.push_back({Phase::B, stage, i});
  return actions;
}

/// Narayanan et al. 2021 (PipeDream-Flush): min(m, p-1-r) forward passes to warm up, then one
/// forward and one backward in turn, then the backward passes that are left.
Actions one_f_one_b(int stage, int p, int m) {
  const int warmup = std::min(m, p - 1 - stage);
  Actions actions;
  int forward = 0;
  int backward = 0;
  while (forward < warmup) actions.push_back({Phase::F, stage, forward++});
  while (forward < m) {
    actions.push_back({Phase::F, stage, forward++});
    actions.push_back({Phase::B, stage, backward++});
  }
  while (backward < m) actions.push_back({Phase::B, stage, backward++});
  return actions;
}

}  // namespace

void pipeline(Draft& draft) {
  const StrategySpec& strategy = draft.scenario.strategy;
  const int p = strategy.pipeline_parallel_degree;
  const int m = draft.scenario.num_microbatches();
  draft.schedule = {};
  for (int s = 0; s < strategy.num_stages(); ++s) draft.schedule.rank_of_stage.push_back(s % p);
  for (int r = 0; r < p; ++r) {
    switch (strategy.pipeline_parallel_schedule) {
      case PipelineSchedule::GPipe:
        draft.schedule.actions.push_back(gpipe(r, m));
        break;
      case PipelineSchedule::OneFOneB:
        draft.schedule.actions.push_back(one_f_one_b(r, p, m));
        break;
    }
  }
}

std::string print_schedule(const Draft& draft) {
  std::string text;
  for (std::size_t r = 0; r < draft.schedule.actions.size(); ++r) {
    text += "pp" + std::to_string(r) + ":";
    for (const Action& action : draft.schedule.actions[r]) text += " " + to_string(action);
    text += "\n";
  }
  return text;
}

}  // namespace lockstep
