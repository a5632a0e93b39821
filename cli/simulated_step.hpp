// One step of a scenario on the simulator, for commands that compare many.
#pragma once

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Requires validate(scenario).empty(). Errors: those of lower() and of the simulator. Thread-safe.
Result<Report> simulated_step(const Scenario& scenario);

/// Of the rank that needs most.
Bytes fullest_rank(const Report& report);

}  // namespace lockstep
