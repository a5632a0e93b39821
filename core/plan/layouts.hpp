// Layouts: every way to divide ranks among the kinds of parallelism. Who tries layouts, the search
// and recommend, takes them from here.
#pragma once

#include <vector>

namespace lockstep {

/// Divisors of `n` that are at most `most`, ascending.
std::vector<int> divisors(int n, int most);

/// Their product is the number of ranks.
struct RankDegrees {
  int tensor = 1, context = 1, pipeline = 1, data = 1;
  bool operator==(const RankDegrees&) const = default;
};

/// The largest degrees that are asked for; data parallelism takes what is left.
struct DegreeLimits {
  int tensor = 1, context = 1, pipeline = 1;
};

/// Each once, ascending by tensor, then context, then pipeline degree. Requires ranks >= 1.
std::vector<RankDegrees> divide_ranks(int ranks, const DegreeLimits& limits);

}  // namespace lockstep
