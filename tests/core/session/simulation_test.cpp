#include "core/session/simulation.hpp"

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/program_file.hpp"
#include "tests/catch.hpp"
#include "tests/scenario_texts.hpp"
#include "tests/temporary_folder.hpp"

namespace lockstep {
namespace {

TEST_CASE("every way to simulate a scenario gives the same step", "[session]") {
  LoadedScenario loaded = parse_scenario(test::kTiny, "s.toml", {});
  REQUIRE(loaded.ok());
  const Scenario& scenario = loaded.points.front().scenario;
  const Result<Report> step = simulated_step(scenario);
  const Result<Run> run = simulated_run(scenario, Devices::AsTheyAre);
  const Result<LayoutFigures> figures = simulated_layout(scenario);
  const auto model = step_time_model(scenario);
  const Result<Program> program = lower(scenario);
  REQUIRE((step && run && figures && model && program));
  CHECK(run->report.step_time == step->step_time);
  CHECK(figures->step_time == step->step_time);
  CHECK((*model)(scenario.cluster).value() == step->step_time);
  const Result<Trace> trace = simulated_trace(*program, scenario.cluster, scenario.what_if);
  REQUIRE(trace.ok());
  CHECK(trace->spans == run->trace.spans);
  CHECK(trace->memory.empty());
  CHECK(!run->trace.memory.empty());
}

TEST_CASE("a program's text gets as many nodes as its ranks need, and no fewer than there are",
          "[session]") {
  LoadedScenario loaded = parse_scenario(test::kTiny, "s.toml", {});
  const Result<Program> program = lower(loaded.points.front().scenario);  // 4 ranks
  REQUIRE(program.ok());
  std::vector<Error> errors;
  ClusterSpec cluster = load_cluster("h100", errors);
  REQUIRE(errors.empty());
  const int per_node = cluster.ranks_per_node();
  REQUIRE(per_node == 8);
  cluster.devices_per_node = 3;
  CHECK(with_room_for(*program, cluster).nodes == 2);
  cluster.nodes = 5;
  CHECK(with_room_for(*program, cluster).nodes == 5);
}

}  // namespace
}  // namespace lockstep
