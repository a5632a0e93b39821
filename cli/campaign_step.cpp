#include "cli/campaign_step.hpp"

#include "core/campaign/checkpoint_size.hpp"
#include "core/lower/lower.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {

Result<StepFacts> simulated_facts(const Scenario& scenario) {
  const Result<Program> program = lower_to_fit(scenario);
  if (!program) return program.error();
  const Result<Report> report = simulated_step_of(*program, scenario);
  if (!report) return report.error();
  const CheckpointSize size = checkpoint_size(*program);
  return StepFacts{report->step_time, size.whole, size.fullest_rank};
}

}  // namespace lockstep
