// Simulated: example scenarios that are lowered and simulated.
#pragma once

#include <string>
#include <vector>

#include "backends/backends.hpp"
#include "core/analysis/report.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"

namespace lockstep::test {

struct Simulated {
  Scenario scenario;
  Program program;
  Trace trace;
};

/// Simulates every point of a scenario file.
inline std::vector<Simulated> simulate_file(const std::string& path,
                                            const std::vector<std::string>& set = {}) {
  const LoadedScenario loaded = load_scenario(path, set);
  if (!loaded.ok()) FAIL(to_string(loaded.errors.front()));
  std::vector<Simulated> result;
  for (const SweepPoint& point : loaded.points) {
    auto program = lower(point.scenario);
    if (!program) FAIL(to_string(program.error()));
    auto run = (*make_backend("sim", {.what_if = point.scenario.what_if}))
                   ->run(*program, point.scenario.cluster, {});
    if (!run) FAIL(to_string(run.error()));
    result.push_back({point.scenario, std::move(*program), std::move(run->trace)});
  }
  return result;
}

/// Simulates a sound scenario and returns its report.
inline Report simulate(const Scenario& s) {
  REQUIRE(validate(s).empty());
  auto program = lower(s);
  if (!program) FAIL(to_string(program.error()));
  auto backend = make_backend("sim", {.what_if = s.what_if});
  auto run = (*backend)->run(*program, s.cluster, {});
  if (!run) FAIL(to_string(run.error()));
  return analyze(run->trace, *program, s.cluster);
}

inline std::string scenario_file(const std::string& name) {
  return std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/" + name;
}

}  // namespace lockstep::test
