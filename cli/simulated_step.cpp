#include "cli/simulated_step.hpp"

#include <algorithm>

#include "backends/backends.hpp"
#include "core/lower/lower.hpp"
#include "core/run/backend.hpp"

namespace lockstep {

Result<Report> simulated_step(const Scenario& scenario) {
  const Result<Program> program = lower(scenario);
  if (!program) return program.error();
  Result<std::unique_ptr<Backend>> backend = make_backend("sim");
  if (!backend) return backend.error();
  const Result<RunResult> ran = (*backend)->run(*program, scenario, {});
  if (!ran) return ran.error();
  return analyze(ran->trace, *program, scenario);
}

Bytes fullest_rank(const Report& report) {
  Bytes most;
  for (const RankReport& rank : report.ranks) most = std::max(most, rank.peak_memory);
  return most;
}

}  // namespace lockstep
