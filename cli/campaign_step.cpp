#include "cli/campaign_step.hpp"

#include "core/analysis/report.hpp"
#include "core/campaign/checkpoint_size.hpp"
#include "core/lower/lower.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {

Result<StepFacts> simulated_facts(const Scenario& scenario) {
  Result<Program> program = lower_to_fit(scenario);
  if (!program) return program.error();
  const CheckpointSize size = checkpoint_size(*program);
  const Result<Trace> trace = simulated_trace(*program, scenario.cluster, scenario.what_if);
  if (!trace) return trace.error();
  const Seconds step = analyze(*trace, std::move(*program), scenario.cluster).step_time;
  return StepFacts{step, size.whole, size.fullest_rank};
}

}  // namespace lockstep
