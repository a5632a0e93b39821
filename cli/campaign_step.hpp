// Campaign step: the facts of a step that campaigns are planned with, from the simulator.
#pragma once

#include "core/campaign/plan.hpp"

namespace lockstep {

/// Lowers the scenario and simulates a step of it: a FactsOracle. Errors: those of lower_to_fit()
/// and of the simulator.
Result<StepFacts> simulated_facts(const Scenario& scenario);

}  // namespace lockstep
