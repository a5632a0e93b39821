// Layouts: lists every way to divide ranks among the kinds of parallelism, for `search` and
// `recommend`.
#pragma once

#include <vector>

namespace lockstep {

/// Divisors of `n` that are at most `most`, ascending.
std::vector<int> divisors(int n, int most);

/// The degree of each kind of parallelism. Their product is the number of ranks.
struct RankDegrees {
  int tensor = 1, context = 1, pipeline = 1, data = 1;
  bool operator==(const RankDegrees&) const = default;
};

/// The largest degrees to try. Data parallelism takes what the others leave, without a limit.
struct DegreeLimits {
  int tensor = 1, context = 1, pipeline = 1;
};

/// Every way to divide `ranks` ranks within `limits`, each once, ascending by tensor, then context,
/// then pipeline degree. Requires ranks >= 1.
std::vector<RankDegrees> divide_ranks(int ranks, const DegreeLimits& limits);

}  // namespace lockstep
