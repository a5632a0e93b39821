#include "backends/sim/loading.hpp"

#include <algorithm>

#include "core/cost/loading.hpp"

namespace lockstep::sim {

Result<Timeline> simulate_with_loader(const Program& program, const ClusterSpec& cluster,
                                      const WhatIfSpec& what_if, const EngineOptions& options) {
  const LoadingPace pace = loading_pace(program, cluster.loader);
  const SimTime each = to_sim_time(pace.microbatch), step = to_sim_time(pace.step);
  const auto with_first = [&](SimTime first) {
    EngineOptions changed = options;
    changed.samples = {first, each};
    return simulate(program, cluster, what_if, changed);
  };
  if (each == SimTime{}) return simulate(program, cluster, what_if, options);
  if (pace.ahead == 0) return with_first(each);
  Result<Timeline> timeline = simulate(program, cluster, what_if, options);
  if (!timeline) return timeline;
  const SimTime ahead = repeated(pace.ahead, each);
  const bool all_ahead = ahead >= step;
  if (timeline->makespan >= step) {
    return all_ahead ? std::move(timeline) : with_first(each - ahead);
  }
  // The loader holds up the step. All paths from a microbatch to the end of the step move with the
  // time at which the first one is ready, so that one run tells how much earlier that must be for
  // the step to take as long as loading.
  timeline = with_first(each);
  if (!timeline) return timeline;
  const SimTime gone_on = std::min(timeline->makespan - step, ahead);
  return with_first(each - gone_on);
}

}  // namespace lockstep::sim
