#include "core/fit/fit.hpp"

#include <cmath>
#include <random>

#include "core/fit/measurements.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// A run whose time is work / matmul_efficiency + moved / bandwidth + step time, in seconds.
Observation run(const std::string& name, double work, double moved, const ClusterSpec& truth) {
  const TimeModel model = [work, moved](const ClusterSpec& c) -> Result<Seconds> {
    return Seconds{work / c.device.matmul_efficiency + moved / (c.device.memory_bandwidth.v / 1e9) +
                   c.framework.step.v};
  };
  ClusterSpec profile;
  profile.name = "card";
  profile.device.matmul_efficiency = 0.9;
  profile.device.memory_bandwidth = {2000e9};
  profile.inter_node.bandwidth = {10e9};
  return {name, "all", *model(truth), profile, model};
}

ClusterSpec truth() {
  ClusterSpec c;
  c.device.matmul_efficiency = 0.6;
  c.device.memory_bandwidth = {1500e9};
  c.framework.step = {0.05};
  return c;
}

std::vector<Observation> runs() {
  std::vector<Observation> rows;
  int i = 0;
  for (const double work : {0.2, 0.6, 1.3, 2.0}) {
    for (const double moved : {30.0, 250.0, 900.0}) {
      rows.push_back(run("run " + std::to_string(++i), work, moved, truth()));
    }
  }
  return rows;
}

std::vector<FitTarget> targets(const std::string& text) {
  const auto parsed = parse_fit_targets(text);
  REQUIRE(parsed.ok());
  return *parsed;
}

Fit fitted(const std::vector<Observation>& rows, const std::string& text,
           const FitOptions& options = {}) {
  const auto fit = fit_constants_to(rows, targets(text), options);
  REQUIRE(fit.ok());
  return *fit;
}

}  // namespace

TEST_CASE("times made with known constants give the constants back", "[fit]") {
  const Fit fit = fitted(runs(), "matmul_efficiency,memory_bandwidth_gb_s,step_us");
  CHECK(fit.constants[0].value == Approx(0.6).epsilon(1e-4));
  CHECK(fit.constants[1].value == Approx(1500).epsilon(1e-4));
  CHECK(fit.constants[2].value == Approx(50000).epsilon(1e-3));
  for (const FittedConstant& c : fit.constants) {
    CHECK(c.state == ParameterState::Fitted);
    CHECK(c.profiles.size() == 1);
  }
  for (const FittedRow& row : fit.rows) {
    CHECK(row.after.v == Approx(row.measured.v).epsilon(1e-4));
    CHECK(row.left_out.v == Approx(row.measured.v).epsilon(1e-3));
    CHECK(std::abs(row.before.v / row.measured.v - 1) > 0.05);
  }
  CHECK(fit.applied(runs()[0].cluster).device.matmul_efficiency == fit.constants[0].value);
}

TEST_CASE("the simulator's own times give back the profile that they were made with", "[fit]") {
  const std::string base = R"([model]
preset = "gpt2-124m"
[training]
seq_len = 512
mixed_precision_param = "bfloat16"
[cluster]
preset = "a100-80"
nodes = 2
[framework]
preset = "megatron-2023"
[parallelism]
data_parallel_shard_degree = 8
data_parallel_replicate_degree = 2
)";
  StepMeasurements measurements;
  for (const char* batch : {"2", "4", "8", "16", "32"}) {
    const LoadedScenario loaded =
        parse_scenario(base, "run.toml", {std::string("training.local_batch_size=") + batch});
    REQUIRE(loaded.ok());
    measurements.rows.push_back({batch, "all", {}, loaded.points[0].scenario, true});
  }
  std::vector<Observation> rows = observations_of(measurements, step_time_model, 2);
  REQUIRE(rows.size() == 5);
  // The model is that of a step simulated by itself.
  CHECK(rows[0].model(rows[0].cluster)->v ==
        simulated_step(measurements.rows[0].scenario)->step_time.v);
  for (Observation& row : rows) {
    ClusterSpec machine = row.cluster;
    machine.device.matmul_efficiency = 0.55;
    machine.inter_node.bandwidth = {6e9};
    row.measured = *row.model(machine);
  }
  FitOptions options;
  options.threads = 2;
  const Fit fit = fitted(rows, "matmul_efficiency,inter_node.bandwidth_gb_s", options);
  CHECK(fit.constants[0].value == Approx(0.55).epsilon(2e-3));
  CHECK(fit.constants[1].value == Approx(6).epsilon(5e-3));
  // Every row once before, and far fewer than a hundred times in all.
  CHECK(fit.simulations < 100 * rows.size());
}

TEST_CASE("a constant that no row depends on is kept, and said", "[fit]") {
  const Fit fit = fitted(runs(), "matmul_efficiency,inter_node.bandwidth_gb_s");
  CHECK(fit.constants[1].state == ParameterState::NoEffect);
  CHECK(fit.constants[1].value == Approx(10));
}

TEST_CASE("two constants that the rows confuse: one is kept, and names the other", "[fit]") {
  std::vector<Observation> rows;
  for (const double size : {0.5, 1.0, 1.5, 2.0, 4.0}) {
    rows.push_back(run("row", size, 500 * size, truth()));  // always in proportion
  }
  std::mt19937 random(3);
  std::normal_distribution<double> noise(0, 0.02);
  for (Observation& row : rows) row.measured.v *= std::exp(noise(random));
  const Fit fit = fitted(rows, "memory_bandwidth_gb_s,matmul_efficiency");
  const bool first = fit.constants[0].state == ParameterState::Undetermined;
  const FittedConstant& kept = fit.constants[first ? 0 : 1];
  CHECK(kept.state == ParameterState::Undetermined);
  CHECK(kept.value == Approx(kept.before));
  CHECK(kept.confused_with == fit.constants[first ? 1 : 0].target.name());
  CHECK(fit.constants[first ? 1 : 0].state == ParameterState::Fitted);
}

TEST_CASE("intervals hold the truth as often as two standard errors should", "[fit]") {
  std::mt19937 random(11);
  std::normal_distribution<double> noise(0, 0.03);
  constexpr int kDraws = 200;
  int holds = 0;
  for (int draw = 0; draw < kDraws; ++draw) {
    std::vector<Observation> rows = runs();
    for (Observation& row : rows) row.measured.v *= std::exp(noise(random));
    const FittedConstant c =
        fitted(rows, "matmul_efficiency,memory_bandwidth_gb_s,step_us").constants[0];
    holds += c.low <= 0.6 && 0.6 <= c.high ? 1 : 0;
  }
  // 95.4 % of a normal distribution, 92 % of Student's with nine degrees of freedom.
  CHECK(holds > 0.86 * kDraws);
  CHECK(holds < kDraws);
}

TEST_CASE("what is left out is predicted by a fit without it", "[fit]") {
  std::vector<Observation> rows = runs();
  std::mt19937 random(5);
  std::normal_distribution<double> noise(0, 0.02);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i].measured.v *= std::exp(noise(random));
    rows[i].group = i % 2 == 0 ? "even" : "odd";
  }
  const auto without = [&](const auto& kept) {
    std::vector<Observation> others;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (kept(i)) others.push_back(rows[i]);
    }
    return fitted(others, "matmul_efficiency,memory_bandwidth_gb_s,step_us");
  };
  const Fit by_row = fitted(rows, "matmul_efficiency,memory_bandwidth_gb_s,step_us");
  for (const std::size_t i : {std::size_t{0}, std::size_t{5}, std::size_t{11}}) {
    const Fit refitted = without([&](std::size_t j) { return j != i; });
    const double expected = rows[i].model(refitted.applied(rows[i].cluster))->v;
    // The linearization of the whole fit against a fit from the beginning.
    CHECK(by_row.rows[i].left_out.v == Approx(expected).epsilon(3e-3));
  }
  FitOptions options;
  options.leave_out = LeaveOut::Group;
  const Fit by_group = fitted(rows, "matmul_efficiency,memory_bandwidth_gb_s,step_us", options);
  REQUIRE(by_group.without.size() == 2);
  CHECK(by_group.without[0].group == "even");
  const Fit odd = without([](std::size_t j) { return j % 2 == 1; });
  for (std::size_t k = 0; k < 3; ++k) {
    CHECK(by_group.without[0].values[k] == Approx(odd.constants[k].value).epsilon(0.02));
  }
  CHECK(by_group.rows[0].left_out.v ==
        Approx(rows[0].model(odd.applied(rows[0].cluster))->v).epsilon(5e-3));
}

TEST_CASE("without a group of its own card a constant keeps its start", "[fit]") {
  std::vector<Observation> rows = runs();
  for (Observation& row : rows) row.group = "only";
  FitOptions options;
  options.leave_out = LeaveOut::Group;
  const Fit fit = fitted(rows, "matmul_efficiency=0.8", options);
  CHECK(fit.without[0].values[0] == Approx(0.8));
  CHECK(fit.constants[0].before == Approx(0.8));
}

TEST_CASE("rows that are not fitted to are compared all the same", "[fit]") {
  std::vector<Observation> rows = runs();
  rows[3].fitted = false;
  rows[3].measured = {1000};
  const Fit fit = fitted(rows, "matmul_efficiency,memory_bandwidth_gb_s,step_us");
  CHECK(fit.constants[0].value == Approx(0.6).epsilon(1e-4));
  CHECK(!fit.rows[3].fitted);
  CHECK(fit.rows[3].after.v == Approx(runs()[3].measured.v).epsilon(1e-3));
}

TEST_CASE("constants of profiles are apart, and a pattern joins them", "[fit]") {
  std::vector<Observation> rows;
  ClusterSpec other = truth();
  other.device.matmul_efficiency = 0.3;
  for (const double work : {0.5, 1.0, 2.0, 3.0}) {
    rows.push_back(run("a", work, 10, truth()));
    rows.push_back(run("b", work, 10, other));
    rows.back().cluster.name = "card-2";
  }
  const Fit apart = fitted(rows, "matmul_efficiency@card,matmul_efficiency@card-2,step_us=50000");
  CHECK(apart.constants[0].value == Approx(0.6).epsilon(1e-2));
  CHECK(apart.constants[1].value == Approx(0.3).epsilon(1e-2));
  CHECK(apart.constants[1].profiles == std::vector<std::string>{"card-2"});
  const Fit joined = fitted(rows, "matmul_efficiency@card*");
  CHECK(joined.constants[0].profiles == std::vector<std::string>{"card", "card-2"});
  CHECK(joined.constants[0].value > 0.3);
  CHECK(joined.constants[0].value < 0.6);
}

TEST_CASE("the rows choose the constants that they can tell", "[fit]") {
  const auto chosen = choose_fit_targets(runs());
  REQUIRE(chosen.ok());
  std::vector<std::string> names;
  for (const FitTarget& target : *chosen) names.push_back(target.name());
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"device.matmul_efficiency",
                                          "device.memory_bandwidth_gb_s", "framework.step_us"});
  // Three rows tell one constant; rows that are simulated exactly tell none.
  std::vector<Observation> few = runs();
  few.resize(3);
  CHECK(choose_fit_targets(few)->size() == 1);
  for (Observation& row : few) row.measured = *row.model(row.cluster);
  CHECK(choose_fit_targets(few)->empty());
}

TEST_CASE("--fit says what is wrong with it", "[fit]") {
  const auto fault = [](const std::string& text) {
    const auto parsed = parse_fit_targets(text);
    REQUIRE(!parsed.ok());
    CHECK(parsed.error().kind == ErrorKind::InvalidSpec);
    return parsed.error().message;
  };
  CHECK_THAT(fault("matmul_eficiency"),
             ContainsSubstring("did you mean 'device.matmul_efficiency'?"));
  CHECK_THAT(fault("bandwidth_gb_s"),
             ContainsSubstring("both inter_node.bandwidth_gb_s and intra_node.bandwidth_gb_s"));
  CHECK_THAT(fault("matmul_efficiency=1.5"), ContainsSubstring("a number from 0.05 to 1"));
  CHECK_THAT(fault("step_us,framework.step_us"), ContainsSubstring("twice"));
  CHECK_THAT(fault(""), ContainsSubstring("there are device.matmul_efficiency"));
  CHECK(targets("cluster.device.matmul_efficiency@h100=0.7")[0].name() ==
        "device.matmul_efficiency@h100");
  const auto none = fit_constants_to(runs(), targets("matmul_efficiency@other"));
  REQUIRE(!none.ok());
  CHECK_THAT(none.error().message,
             ContainsSubstring("no row that is fitted has a cluster profile"));
}

TEST_CASE("what a constant is set to is what it is", "[fit]") {
  ClusterSpec cluster = runs()[0].cluster;
  cluster.device.efficiency = {{"gemm", {{{1e-5}, 0.2}, {{1e-3}, 0.8}}}, {"*", {{{1e-4}, 0.9}}}};
  for (const FitConstant& c : fit_constants()) {
    INFO(c.key);
    const double value = c.lower > 0 ? std::sqrt(c.lower * c.upper) : c.upper / 7;
    c.set(cluster, value);
    CHECK(c.get(cluster) == Approx(value));
  }
  CHECK(cluster.device.efficiency[0].points[1].efficiency /
            cluster.device.efficiency[0].points[0].efficiency ==
        Approx(4));
  CHECK(cluster.device.efficiency[1].points[0].efficiency == 0.9);  // the part that copies reach
}
