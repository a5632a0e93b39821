// Compares what-if simulations with theory.
#include <algorithm>
#include <cmath>
#include <set>

#include "backends/backends.hpp"
#include "backends/sim/engine.hpp"
#include "core/analysis/report.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;
using test::simulate;

namespace {

double most_busy(const Report& report) {
  double most = 0;
  for (const RankReport& rank : report.ranks) most = std::max(most, rank.compute.v);
  return most;
}

}  // namespace

TEST_CASE("a DDP step takes as long as its slowest rank", "[integration]") {
  // The gradients of all ranks are summed before any rank updates, so that with free transfers the
  // step takes as long as the straggler's.
  for (const int n : {2, 3, 4}) {
    Scenario s = test::tiny_scenario(Architecture::Gpt2, {n});
    s.cluster.device.concurrent_ranks = 64;
    s.cluster.device.launch_overhead = Seconds{1e-5};
    s.what_if.ideal_network = true;
    const double alike = simulate(s).step_time.v;
    s.what_if.straggler_slowdown = 1.7;
    for (int slow = 0; slow < n; ++slow) {
      s.what_if.straggler_rank = slow;
      CHECK(simulate(s).step_time.v == Approx(1.7 * alike).epsilon(1e-9));
    }
  }
}

TEST_CASE("1F1B runs at the pace of its slowest stage", "[integration]") {
  // F = 1, B = 2. Stage s, k times slower, starts after s F of the stages before, works m k (F + B)
  // without a pause (k F >= F + B, so that it never waits for its first gradient), and the stages
  // before it end s B later.
  for (const int p : {2, 3, 5}) {
    for (int slow = 0; slow < p; ++slow) {
      for (const int k : {3, 4}) {
        for (const int m : {1, 6, 13}) {
          Scenario s = test::synthetic_scenario(p, m, 1, 1, 1, 0);
          s.what_if.straggler_rank = slow;
          s.what_if.straggler_slowdown = k;
          INFO("p=" << p << " slow " << slow << " k=" << k << " m=" << m);
          const int pause = m == 1 ? 3 * (p - 1 - slow) : 0;  // one microbatch: all wait for it
          const double expected = 3 * slow + 3 * m * k + pause;
          if (m == 1 || m >= p - slow) CHECK(simulate(s).step_time.v == expected);
        }
      }
    }
  }
}

TEST_CASE("ranks that are not told apart do what each of them does alone", "[integration]") {
  // Layouts of 12 to 32 ranks in nodes of four or five, which cut some groups and not
  // others; the straggler is anyone or no one.
  std::vector<Scenario> layouts;
  for (const test::Layout& layout :
       {test::Layout{4, 3}, test::Layout{3, 2, 2, 4}, test::Layout{1, 4, 4, 4}}) {
    layouts.push_back(test::tiny_scenario(Architecture::Llama, layout));
  }
  Scenario four = test::tiny_scenario(Architecture::Gpt2, {1, 2, 2, 4});
  four.strategy.tensor_parallel_degree = 4;
  four.strategy.enable_sequence_parallel = true;
  four.strategy.context_parallel_degree = 2;
  four.strategy.context_parallel_method = ContextParallelMethod::AllGather;
  layouts.push_back(four);
  for (Scenario& s : layouts) {
    s.cluster.ranks_per_device = 1;
    s.cluster.devices_per_node = 64;
    s.cluster.device.launch_overhead = Seconds{1e-5};
    s.cluster.intra_node = {{1e9}, {1e-6}};
    s.cluster.inter_node = {{3e8}, {4e-6}};
    s.what_if.straggler_slowdown = 1.5;
    const Program program = test::lowered(s);
    const int world = program.mesh.world_size();
    for (const int node : {4, 5, world}) {
      s.cluster.devices_per_node = node;
      s.cluster.nodes = (world + node - 1) / node;
      for (Rank slow = -1; slow < world; ++slow) {
        s.what_if.straggler_rank = slow;
        INFO(world << " ranks in nodes of " << node << ", straggler " << slow);
        const auto folded = sim::simulate(program, s.cluster, s.what_if);
        const auto all = sim::simulate(program, s.cluster, s.what_if, {.fold = false});
        REQUIRE(folded.ok());
        REQUIRE(all.ok());
        if (node == world) CHECK(folded->ranks.size() < all->ranks.size());
        bool same = true;
        for (Rank r = 0; r < world; ++r) {
          const auto own = all->of_place(to_size(r));
          same = same && std::ranges::equal(folded->of_place(folded->place_of(r)), own, {},
                                            &ActiveTime::end, &ActiveTime::end);
        }
        CHECK(same);
      }
    }
  }
}

TEST_CASE("a straggler of a cube of ranks tells two ranks apart along each axis", "[integration]") {
  // Tensor parallel 8, pipeline 4, two replicas. Ranks are told apart by whether they share each of
  // two axes with the straggler, which makes 2 x 2 on each of 4 stages; without a straggler, one
  // per stage.
  const std::string path =
      test::scenario_file("tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml");
  const auto simulated = [&](const std::vector<std::string>& set) {
    const std::vector<Rank> same_as = test::simulate_file(path, set).front().trace.same_as;
    return std::set<Rank>(same_as.begin(), same_as.end()).size();
  };
  CHECK(simulated({}) == 4);
  CHECK(simulated({"what_if.straggler_rank=42", "what_if.straggler_slowdown=1.1"}) == 16);
}

TEST_CASE("jitter keeps the mean of a chain and lengthens what waits for the slowest",
          "[integration]") {
  // One microbatch on p ranks is a chain: its length is the sum of what it consists of. Many
  // chains: mean 2pT/2 = p (F + B), variance 2p jitter² of unit passes.
  for (const JitterDistribution distribution :
       {JitterDistribution::Normal, JitterDistribution::Uniform, JitterDistribution::Exponential}) {
    Scenario chain = test::synthetic_scenario(4, 1, 1, 0.5, 0.5, 0);
    Scenario full = test::synthetic_scenario(4, 16, 1, 0.5, 0.5, 0);
    chain.what_if.jitter_distribution = full.what_if.jitter_distribution = distribution;
    chain.what_if.jitter = full.what_if.jitter = 0.2;
    constexpr int kSeeds = 400;
    double sum = 0, squares = 0, full_sum = 0;
    for (int seed = 0; seed < kSeeds; ++seed) {
      chain.what_if.jitter_seed = full.what_if.jitter_seed = static_cast<std::uint64_t>(seed);
      const Report report = simulate(chain);
      double busy = 0;
      for (const RankReport& rank : report.ranks) busy += rank.compute.v;
      CHECK(report.step_time.v == Approx(busy).epsilon(1e-9));
      sum += report.step_time.v;
      squares += report.step_time.v * report.step_time.v;
      if (seed < 40) {
        const Report pipeline = simulate(full);
        CHECK(pipeline.step_time.v >= most_busy(pipeline));
        full_sum += pipeline.step_time.v;
      }
    }
    const double mean = sum / kSeeds;
    const double variance = squares / kSeeds - mean * mean;
    CHECK(std::abs(mean - 8) < 5 * 0.2 * std::sqrt(8.0 / kSeeds));
    CHECK(variance == Approx(8 * 0.2 * 0.2).epsilon(0.35));
    // (m + p - 1) T = 38 where all passes are alike; every handover waits for the later of two.
    CHECK(full_sum / 40 > 38.2);
  }
}

TEST_CASE("jitter is a function of its seed, and none changes nothing", "[integration]") {
  Scenario s = test::synthetic_scenario(3, 6, 1, 1, 1, 0);
  s.what_if.jitter_seed = 9;
  CHECK(simulate(s).step_time.v == 24);
  s.what_if.jitter = 0.1;
  const double once = simulate(s).step_time.v;
  CHECK(simulate(s).step_time.v == once);
  s.what_if.jitter_seed = 10;
  CHECK(simulate(s).step_time.v != once);
}

TEST_CASE("updated parameters gathered during forward are hidden by it", "[integration]") {
  // ZeRO-1 on four ranks: the gather after the update is exposed, the one during forward is not,
  // but for that of the embedding, which comes first.
  Scenario s = test::tiny_scenario(Architecture::Llama, {1, 4});
  s.cluster.device.concurrent_ranks = 64;
  s.cluster.device.launch_overhead = Seconds{1e-5};
  s.cluster.intra_node.latency = Seconds{1e-5};
  for (const int stage : {1, 2}) {
    s.strategy.zero_stage = stage;
    s.strategy.overlap_param_gather = false;
    const Report after = simulate(s);
    s.strategy.overlap_param_gather = true;
    const Report during = simulate(s);
    CHECK(during.ranks[0].comm_bytes_sent == after.ranks[0].comm_bytes_sent);
    CHECK(during.ranks[0].peak_memory == after.ranks[0].peak_memory);
    CHECK(during.step_time < after.step_time);
    CHECK(during.exposed_comm < after.exposed_comm);
  }
}
