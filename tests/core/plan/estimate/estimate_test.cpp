// Compares estimates of random layouts with their full simulation.
#include "core/plan/estimate/estimate.hpp"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <iostream>
#include <random>

#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/plan/estimate/random_layouts.hpp"

using namespace lockstep;

namespace {

struct Distances {
  std::vector<double> time;  // |estimate / simulated - 1| of those within the claim
  std::vector<double> all;   // of all that the search has in its space
  double memory_under = 0, memory_over = 0;
  double estimate_seconds = 0, simulate_seconds = 0;
  int probes = 0, unclaimed = 0;
};

Distances distances(int layouts, unsigned seed, bool print) {
  std::mt19937 random(seed);
  Distances found;
  using Clock = std::chrono::steady_clock;
  const auto seconds = [](Clock::time_point since) {
    return std::chrono::duration<double>(Clock::now() - since).count();
  };
  while (static_cast<int>(found.time.size()) < layouts) {
    const Scenario base = test::random_task(random);
    Estimator estimator(simulated_probe);
    for (int i = 0; i < 12; ++i) {
      const std::optional<Scenario> layout = test::random_layout(base, random);
      if (!layout) continue;
      INFO(search_task(base) << ": " << layout_name(*layout));
      auto start = Clock::now();
      const Result<LayoutEstimate> estimate = estimator.estimate(*layout);
      found.estimate_seconds += seconds(start);
      if (!estimate) FAIL(to_string(estimate.error()));
      const bool claimed = estimate->unclaimed.empty();
      found.unclaimed += !claimed;
      if (!claimed && !test::searched(*layout)) continue;
      start = Clock::now();
      const Result<Probe> full = simulated_probe(*layout);
      found.simulate_seconds += seconds(start);
      if (!full) FAIL(to_string(full.error()));
      Bytes needed;
      for (const Bytes bytes : full->needed) needed = std::max(needed, bytes);
      const double time = estimate->step_time.v / full->step.v - 1;
      const double memory =
          static_cast<double>(estimate->needed.v) / static_cast<double>(needed.v) - 1;
      found.all.push_back(std::abs(time));
      if (claimed) found.time.push_back(std::abs(time));
      found.memory_under = std::max(found.memory_under, -memory);
      found.memory_over = std::max(found.memory_over, memory);
      if (print) {
        std::cout << (claimed ? "" : "? ") << time * 100 << " %  memory " << memory * 100 << " %  "
                  << full->step.v << " s  " << base.model.name << " on " << base.cluster.name
                  << " x " << base.cluster.nodes << ", " << base.model.layers
                  << " blocks: " << test::whole_name(*layout) << "\n";
      }
    }
    found.probes += estimator.probes();
  }
  std::sort(found.time.begin(), found.time.end());
  std::sort(found.all.begin(), found.all.end());
  return found;
}

}  // namespace

TEST_CASE("an estimate is as near to the full simulation as it claims", "[core][plan]") {
  const Distances found = distances(120, 7, false);
  CHECK(found.time[found.time.size() / 2] <= EstimateClaim::kMedianTime);
  CHECK(found.time.back() <= EstimateClaim::kWorstTime);
  CHECK(found.memory_under <= EstimateClaim::kMemoryUnder);
  CHECK(found.all[found.all.size() * 19 / 20] <= EstimateClaim::kUsualTime);
}

// LOCKSTEP_LAYOUTS=3000 test_core_plan_estimate "[.distance]" prints every layout and the sums.
TEST_CASE("the distances of many layouts", "[.distance]") {
  const char* count = std::getenv("LOCKSTEP_LAYOUTS");
  const char* seed = std::getenv("LOCKSTEP_SEED");
  const Distances found = distances(count ? std::atoi(count) : 300,
                                    seed ? static_cast<unsigned>(std::atoi(seed)) : 1, true);
  const auto at = [&](double part) {
    return 100 * found.time[static_cast<std::size_t>(part * double(found.time.size() - 1))];
  };
  std::cout << found.time.size() << " layouts: time " << at(0.5) << " % median, " << at(0.9)
            << " % at 90, " << at(0.99) << " % at 99, " << at(1) << " % at worst; memory "
            << 100 * found.memory_under << " % under, " << 100 * found.memory_over
            << " % over at worst; " << found.unclaimed << " not claimed, " << found.probes
            << " probes, " << found.estimate_seconds << " s of estimates, "
            << found.simulate_seconds << " s of simulations\n";
  CHECK(found.time.back() <= EstimateClaim::kWorstTime);
  CHECK(found.memory_under <= EstimateClaim::kMemoryUnder);
}
