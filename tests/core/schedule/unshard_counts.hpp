// Unshard counts: how often the ranks of a schedule gather their stages.
#pragma once

#include <map>
#include <vector>

#include "core/schedule/generators.hpp"
#include "core/schedule/unshard.hpp"

namespace lockstep::test {

using Counts = std::vector<int>;

/// How often each rank gathers each of its stages.
inline Counts counts(RankSchedule schedule, const PipelineShape& shape, int most_active) {
  Counts result;
  for (int rank = 0; rank < shape.p; ++rank) {
    const Actions actions = schedule(shape, rank);
    const std::vector<int> times = unshards(actions, most_active);
    std::map<Stage, int> of_stage;
    for (std::size_t i = 0; i < actions.size(); ++i) of_stage[actions[i].stage] = times[i];
    int total = 0;
    for (const auto& [stage, n] : of_stage) total += n;
    result.push_back(total);
  }
  return result;
}

}  // namespace lockstep::test
