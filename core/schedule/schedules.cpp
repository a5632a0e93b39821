#include "core/schedule/schedules.hpp"

#include <algorithm>

namespace lockstep {

Schedule generate(const ScheduleRules& rules, const PipelineShape& shape) {
  return {place_stages(rules.placement, shape.p, rules.copies * shape.v), rules.generate(shape),
          rules.copies};
}

int interleave_group(int requested, int p, int m) {
  return requested > 0 ? std::min(requested, m) : m / std::max(1, m / p);
}

std::vector<int> place_stages(Placement placement, int p, int v) {
  std::vector<int> ranks;
  for (int s = 0; s < p * v; ++s) {
    const int lap = s / p;
    ranks.push_back(placement == Placement::V && lap % 2 == 1 ? p - 1 - s % p : s % p);
  }
  return ranks;
}

}  // namespace lockstep
