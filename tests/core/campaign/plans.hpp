// Plans: campaigns of one phase for tests, with times in whole seconds.
#pragma once

#include "core/campaign/plan.hpp"

namespace lockstep::test {

inline CampaignTime seconds(double t) { return to_campaign_time({t}); }

/// Steps of a second; only the job as a whole fails, every `mean_time` seconds on average.
inline CampaignPlan plan_of_steps(std::int64_t steps, std::int64_t interval, double pause,
                                  double recovery, double mean_time) {
  CampaignPhase phase;
  phase.name = "1";
  phase.steps = steps;
  phase.tokens_per_step = 10;
  phase.step = seconds(1);
  phase.interval = interval;
  phase.pause = seconds(pause);
  phase.restart = seconds(recovery);
  if (mean_time > 0) phase.rates.rate[to_size(FailureCause::Job)] = 1 / mean_time;
  CampaignPlan plan;
  plan.phases = {phase};
  return plan;
}

}  // namespace lockstep::test
