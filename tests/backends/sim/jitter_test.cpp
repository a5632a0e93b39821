#include "backends/sim/jitter.hpp"

#include <algorithm>
#include <cmath>

#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("recorded factors are those of each rank and op, whatever jitter says",
          "[backends][sim]") {
  WhatIfSpec what_if;
  what_if.jitter = 0.5;
  what_if.recorded = std::make_shared<const CallFactors>(CallFactors{{1, 2.5}, {0.5}});
  CHECK(sim::jitter_factor(what_if, 0, 1) == 2.5);
  CHECK(sim::jitter_factor(what_if, 1, 0) == 0.5);
  what_if.jitter = 0;
  CHECK(what_if.varies());
}

TEST_CASE("jitter has mean 1 and the deviation that was asked for", "[backends][sim]") {
  for (const JitterDistribution distribution :
       {JitterDistribution::Normal, JitterDistribution::Uniform, JitterDistribution::Exponential}) {
    WhatIfSpec what_if;
    what_if.jitter = 0.2;
    what_if.jitter_distribution = distribution;
    what_if.jitter_seed = 5;
    double sum = 0, squares = 0, least = 2, most = 0;
    constexpr int kRanks = 20, kOps = 5000;
    for (int rank = 0; rank < kRanks; ++rank) {
      for (std::uint32_t op = 0; op < kOps; ++op) {
        const double x = sim::jitter_factor(what_if, rank, op);
        sum += x;
        squares += x * x;
        least = std::min(least, x);
        most = std::max(most, x);
      }
    }
    const double n = kRanks * kOps;
    const double mean = sum / n;
    CHECK(mean == Approx(1).margin(5 * 0.2 / std::sqrt(n)));
    CHECK(std::sqrt(squares / n - mean * mean) == Approx(0.2).epsilon(0.02));
    if (distribution == JitterDistribution::Uniform) {
      CHECK(least >= 1 - 0.2 * std::sqrt(3.0));
      CHECK(most <= 1 + 0.2 * std::sqrt(3.0));
    } else if (distribution == JitterDistribution::Exponential) {
      CHECK(least >= 0.8);  // 1 + 0.2 (E - 1)
      CHECK(most > 1 + 0.2 * 8);
    } else {
      CHECK(least < 1 - 0.2 * 3.5);
      CHECK(most > 1 + 0.2 * 3.5);
    }
  }
  WhatIfSpec wild;
  wild.jitter = 3;
  for (std::uint32_t op = 0; op < 1000; ++op) CHECK(sim::jitter_factor(wild, 0, op) >= 0);
}
