#include "core/plan/layouts.hpp"

#include <algorithm>

namespace lockstep {

std::vector<int> divisors(int n, int most) {
  std::vector<int> result;
  for (int d = 1; d <= std::min(n, most); ++d) {
    if (n % d == 0) result.push_back(d);
  }
  return result;
}

std::vector<RankDegrees> divide_ranks(int ranks, const DegreeLimits& limits) {
  std::vector<RankDegrees> result;
  for (const int tensor : divisors(ranks, limits.tensor)) {
    for (const int context : divisors(ranks / tensor, limits.context)) {
      const int rest = ranks / tensor / context;
      for (const int pipeline : divisors(rest, limits.pipeline)) {
        result.push_back({tensor, context, pipeline, rest / pipeline});
      }
    }
  }
  return result;
}

}  // namespace lockstep
