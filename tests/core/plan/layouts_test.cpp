#include "core/plan/layouts.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("ranks are divided in every way once, and in no other", "[core][plan]") {
  for (const int ranks : {1, 2, 6, 8, 12, 36, 64}) {
    const DegreeLimits limits{8, 3, 12};
    std::vector<RankDegrees> every;  // by trying all products
    for (int t = 1; t <= limits.tensor; ++t) {
      for (int c = 1; c <= limits.context; ++c) {
        for (int p = 1; p <= limits.pipeline; ++p) {
          for (int d = 1; d <= ranks; ++d) {
            if (t * c * p * d == ranks) every.push_back({t, c, p, d});
          }
        }
      }
    }
    CHECK(divide_ranks(ranks, limits) == every);
  }
}

TEST_CASE("divisors are those of the number, up to a limit", "[core][plan]") {
  CHECK(divisors(12, 12) == std::vector<int>{1, 2, 3, 4, 6, 12});
  CHECK(divisors(12, 5) == std::vector<int>{1, 2, 3, 4});
  CHECK(divisors(7, 100) == std::vector<int>{1, 7});
}

}  // namespace
}  // namespace lockstep
