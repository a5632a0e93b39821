// One step of a scenario on the simulator, for who compares many.
#pragma once

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/plan/search.hpp"
#include "core/spec/scenario.hpp"
#include "core/spec/validate/validate.hpp"

namespace lockstep {

/// Requires validate(scenario).empty(). Errors: those of lower_to_fit() and of the simulator.
/// Thread-safe.
Result<Report> simulated_step(const Scenario& scenario);

/// Of the rank that needs most.
Bytes fullest_rank(const Report& report);

/// By what a report says of it, a layout is compared with others.
LayoutFigures layout_figures(const Report& report);

/// The oracle of a search: the figures of simulated_step.
Result<LayoutFigures> simulated_layout(const Scenario& scenario);

}  // namespace lockstep
