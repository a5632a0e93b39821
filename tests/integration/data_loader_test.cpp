// Steps with a data loader that keeps up or falls behind, against closed forms.
#include <algorithm>
#include <random>

#include "core/analysis/report.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;
using test::Layout;
using test::simulate;

namespace {

Scenario with_loader(Scenario s, double sample, int workers, int prefetch = 2) {
  s.cluster.loader = {
      .sample = Seconds{sample}, .num_workers = workers, .prefetch_factor = prefetch};
  return s;
}

/// A scenario whose step takes about a millisecond.
Scenario of_layout(const Layout& layout, Architecture architecture = Architecture::Gpt2) {
  Scenario s = test::tiny_scenario(architecture, layout);
  s.cluster.device.launch_overhead = Seconds{1e-5};
  s.cluster.device.concurrent_ranks = 64;
  return s;
}

double samples_of_a_rank(const Scenario& s) {
  return s.global_batch_size() / s.strategy.data_parallel_degree();
}

Seconds waiting_for_data(const Report& report) { return report.causes.bubbles[BubbleCause::Data]; }

}  // namespace

TEST_CASE("a loader that is as fast as the step costs nothing", "[integration]") {
  for (const Layout& layout : {Layout{}, Layout{2}, Layout{1, 2, 1, 1, 3}, Layout{1, 1, 2, 4}}) {
    const Scenario s = of_layout(layout);
    const double alone = simulate(s).step_time.v;
    const double sample = alone / samples_of_a_rank(s);  // loading takes exactly the step
    const Report report = simulate(with_loader(s, sample * 0.999, 1, 64));
    CHECK(report.step_time.v == alone);
    CHECK(waiting_for_data(report).v == 0);
  }
}

TEST_CASE("a loader that is slower sets the pace of every layout", "[integration]") {
  std::mt19937 random(11);
  for (const Layout& layout : {Layout{}, Layout{3}, Layout{1, 2, 1, 1, 4}, Layout{1, 1, 2, 4},
                               Layout{2, 1, 3, 6}, Layout{1, 2, 2, 4, 2}}) {
    const Scenario s = of_layout(layout);
    const double alone = simulate(s).step_time.v;
    for (int i = 0; i < 4; ++i) {
      const double factor = std::uniform_real_distribution<double>(1.05, 8)(random);
      const int workers = std::uniform_int_distribution<int>(1, 6)(random);
      const double step = factor * alone;
      const Report report =
          simulate(with_loader(s, step * workers / samples_of_a_rank(s), workers, 16));
      INFO(layout.replicate << "x" << layout.shard << " pp " << layout.pp << ", " << factor
                            << " times, " << workers << " workers");
      CHECK(report.step_time.v == Approx(step).epsilon(1e-6));
      CHECK(waiting_for_data(report).v > 0);
      CHECK(waiting_for_data(report).v <= report.step_time.v);
    }
  }
}

TEST_CASE("without workers each microbatch is loaded when the last one has been given away",
          "[integration]") {
  const Scenario s = of_layout({});
  const double alone = simulate(s).step_time.v;
  // Of one microbatch the device waits for all of its loading.
  CHECK(simulate(with_loader(s, 0.5, 0)).step_time.v == Approx(alone + 0.5).epsilon(1e-9));
  // Of several, the device computes one while the next is loaded.
  const Scenario four = of_layout({1, 1, 1, 1, 4});
  const double computed = simulate(four).step_time.v;
  const double step = simulate(with_loader(four, 0.5, 0)).step_time.v;
  CHECK(step > 4 * 0.5);
  CHECK(step < 4 * 0.5 + computed);
}

TEST_CASE("more workers, and more ahead, never make a step longer", "[integration]") {
  const Scenario s = of_layout({1, 1, 2, 6}, Architecture::Llama);
  const double sample = 2 * simulate(s).step_time.v / samples_of_a_rank(s);
  double before = 1e9;
  for (const int workers : {0, 1, 2, 3, 4, 8}) {
    const double step = simulate(with_loader(s, sample, workers)).step_time.v;
    CHECK(step <= before * (1 + 1e-9));
    before = step;
  }
  CHECK(before == simulate(s).step_time.v);
  for (const int workers : {1, 2, 3}) {
    CHECK(simulate(with_loader(s, sample, workers, 8)).step_time.v <=
          simulate(with_loader(s, sample, workers, 1)).step_time.v * (1 + 1e-9));
  }
}

TEST_CASE("a rank's idle time is still divided among its causes", "[integration]") {
  const Scenario s = of_layout({2, 1, 2, 4});
  const double alone = simulate(s).step_time.v;
  const Report report = simulate(with_loader(s, 3 * alone / samples_of_a_rank(s), 1));
  for (const RankReport& rank : report.ranks) {
    Seconds idle;
    for (const Seconds part : report.causes.ranks[to_size(rank.rank)].bubbles) idle += part;
    CHECK(idle.v == Approx(report.step_time.v - rank.compute.v).epsilon(1e-9));
  }
}

TEST_CASE("samples in memory that is not pinned are copied once more by the host",
          "[integration]") {
  Scenario s = of_layout({}, Architecture::Vit);
  s.cluster.device.host_bandwidth = BytesPerSecond{1e9};
  s.cluster.device.host_memory_bandwidth = BytesPerSecond{4e9};
  const double pinned = simulate(s).step_time.v;
  s.cluster.loader.pin_memory = false;
  const double image = 12 * 12 * 3 * 4;  // bytes; its label comes while it is computed
  CHECK(simulate(s).step_time.v == Approx(pinned + 2 * image / 4e9).epsilon(1e-8));
}
