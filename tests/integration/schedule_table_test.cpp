// Published schedules: every row of the table in tests/data for the schedules there are, simulated.
#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "backends/backends.hpp"
#include "core/analysis/report.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"
#include "tests/core/lower/fixtures.hpp"

using namespace lockstep;

namespace {

Report simulate(const Scenario& s) {
  REQUIRE(validate(s).empty());
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  auto backend = make_backend("sim");
  auto run = (*backend)->run(*program, s, {});
  if (!run) FAIL(to_string(run.error()));
  return analyze(run->trace, *program, s);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::stringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(part);
  return parts;
}

std::vector<double> numbers(const std::string& text) {
  std::vector<double> list;
  for (const std::string& part : split(text, ' ')) list.push_back(std::stod(part));
  return list;
}

std::ifstream data(const std::string& name) {
  std::ifstream file(std::string(LOCKSTEP_SOURCE_DIR) + "/tests/data/" + name);
  REQUIRE(file.good());
  return file;
}

}  // namespace

TEST_CASE("every row of the published table is reproduced exactly by lockstep run",
          "[integration]") {
  // Chunk-unit rows give times per virtual stage, as we do.
  struct Known {
    const char* published;
    const char* name;
    int rows;
  };
  std::vector<Known> known = {
      {"GPipe", "GPipe", 125},
      {"1F1B", "1F1B", 121},
      {"Interleaved1F1B", "Interleaved1F1B", 191},
      {"LoopedBFS", "LoopedBFS", 263},
      {"ZB-H1", "ZB-H1", 89},
      {"ZB-H2", "ZB-H2", 90},
      {"InterleavedZeroBubble(torch)", "InterleavedZeroBubble", 153},
      {"ZBV(torch static)", "ZBVZeroBubble", 86},
      {"\"DualPipeV;F&B=F+B+W\"", "DualPipeV", 85},
  };
  const TemporaryFolder folder;
  const std::string scenario = folder / "synthetic.toml";
  write_bytes(scenario, test::kSynthetic);
  std::ifstream file = data("schedule_expected.csv");
  std::string line;
  std::getline(file, line);
  REQUIRE(line ==
          "schedule,p,m,v,T_F,T_B_input,T_W_weight,T_comm,unit,makespan,max_stage_span,"
          "idle_per_rank,peak_inflight_per_rank");
  while (std::getline(file, line)) {
    INFO(line);
    if (const std::size_t comma = line.find(",F&B"); comma != std::string::npos) {
      line[comma] = ';';  // inside quotes
    }
    const auto cell = split(line, ',');
    const auto found = std::find_if(known.begin(), known.end(),
                                    [&](const Known& k) { return cell[0] == k.published; });
    if (found == known.end()) {
      CHECK(cell[0] == "\"DualPipe;F&B=F+B+W\"");  // two model copies: not built
      continue;
    }
    std::vector<std::string> arguments = {"run", scenario, "--json"};
    for (const auto& [key, value] :
         {std::pair{"parallelism.pipeline_parallel_schedule", std::string(found->name)},
          std::pair{"parallelism.pipeline_parallel_degree", cell[1]},
          std::pair{"parallelism.pipeline_parallel_microbatches", cell[2]},
          std::pair{"parallelism.pipeline_parallel_virtual_stages", cell[3]},
          std::pair{"costs.forward", cell[4]}, std::pair{"costs.backward_input", cell[5]},
          std::pair{"costs.backward_weight", cell[6]}, std::pair{"costs.p2p", cell[7]}}) {
      arguments.insert(arguments.end(), {"--set", std::string(key) + "=" + value});
    }
    const test::Outcome outcome = test::lockstep(arguments);
    INFO(outcome.err);
    REQUIRE(outcome.exit_code == 0);
    const auto report = nlohmann::json::parse(outcome.out);
    const double makespan = report["step_time_s"];
    CHECK(makespan == std::stod(cell[9]));
    const std::vector<double> spans = report["stage_span_s"];
    CHECK(*std::max_element(spans.begin(), spans.end()) == std::stod(cell[10]));
    std::vector<double> idle = report["compute_s"];
    for (double& seconds : idle) seconds = makespan - seconds;  // the table counts waits as idle
    CHECK(idle == numbers(cell[11]));
    const std::vector<double> peak = report["peak_microbatches_in_flight"];
    CHECK(peak == numbers(cell[12]));
    --found->rows;
  }
  for (const Known& schedule : known) {
    INFO(schedule.name);
    CHECK(schedule.rows == 0);  // all were there
  }
}

TEST_CASE("the bubble table: (p-1)/(m+p-1) of the step for uniform stages", "[integration]") {
  // Forward 1, backward 2: makespan 3(m + p - 1), ideal 3m.
  for (int p : {2, 4, 8}) {
    for (int m : {4, 8, 16, 32, 64}) {
      const Report report = simulate(test::synthetic_scenario(p, m, 1, 1, 1, 0));
      CHECK(report.step_time.v == 3.0 * (m + p - 1));
      CHECK(report.bubble_fraction == Approx(double(p - 1) / (m + p - 1)).epsilon(1e-12));
      CHECK(report.bubble_over_ideal == Approx(double(p - 1) / m).epsilon(1e-12));
    }
  }
}

TEST_CASE("replays of measured 1F1B runs end -1.6 % to 0 % from the measured iteration",
          "[integration]") {
  std::ifstream file = data("pipeline_1f1b_stages.csv");
  std::string line;
  std::getline(file, line);
  const auto header = split(line, ',');
  const auto column = [&](const std::string& name) {
    return static_cast<std::size_t>(std::find(header.begin(), header.end(), name) - header.begin());
  };
  int rows = 0;
  while (std::getline(file, line)) {
    const auto cell = split(line, ',');
    const std::string& method = cell[column("method")];
    if (method != "base" && method != "redis") continue;  // the others run more than F and B
    INFO(line);
    Scenario s = test::synthetic_scenario(std::stoi(cell[column("pp")]),
                                          std::stoi(cell[column("microbatches")]), 0, 0, 0, 0);
    s.costs->forward = numbers(cell[column("fwd_ms_per_stage")]);
    s.costs->backward_input = numbers(cell[column("bwd_ms_per_stage")]);
    const double measured = std::stod(cell[column("iter_time_ms_measured")]);
    const double replay = simulate(s).step_time.v;
    // The table holds an independent replay, printed to 0.1 ms.
    CHECK(replay == Approx(std::stod(cell[column("iter_time_ms_1f1b_replay_c0")])).margin(0.051));
    const double error = replay / measured - 1;
    CHECK(error <= 0);
    CHECK(error >= -0.016);
    ++rows;
  }
  CHECK(rows == 5);
}
