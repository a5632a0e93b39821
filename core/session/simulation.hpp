// Simulation: one step of a scenario or a program on the simulator, and the figures that searches,
// validations and estimates take from it.
#pragma once

#include <functional>

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/plan/estimate/probe.hpp"
#include "core/plan/found_layout.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/spec/scenario.hpp"
#include "core/spec/validate/validate.hpp"
#include "core/trace/trace.hpp"
#include "core/validation/training_validation.hpp"

namespace lockstep {

enum class MemorySamples { LeftOut, Kept };  // RunOptions::memory_samples
/// Simulates one step of a program. Requires verify(program).empty(). Errors are those of the
/// simulator. Thread-safe.
Result<Trace> simulated_trace(const Program& program, const ClusterSpec& cluster,
                              const WhatIfSpec& what_if,
                              MemorySamples memory = MemorySamples::LeftOut);

/// Lowers the scenario and simulates one step of it. Requires validate(scenario).empty(). Errors:
/// those of lower_to_fit() and of simulated_trace(). Thread-safe.
Result<Report> simulated_step(const Scenario& scenario);
/// The same of a program that was lowered from the scenario.
Result<Report> simulated_step_of(const Program& program, const Scenario& scenario);

enum class Devices { AsTheyAre, Unlimited };  // whether what does not fit is an error
/// The same as simulated_step(), with the trace and samples of memory.
Result<Run> simulated_run(const Scenario& scenario, Devices devices);

/// Lowers the scenario once, whether it fits or not, and returns its step time on clusters that
/// differ from its own in figures, not in devices. Requires validate(scenario).empty(). Errors:
/// those of lower(), and then those of the simulator. Thread-safe, and so is what it returns.
Result<std::function<Result<Seconds>(const ClusterSpec&)>> step_time_model(
    const Scenario& scenario);

/// The peak memory of the rank that needs most.
Bytes fullest_rank(const Report& report);

/// The figures of a report by which layouts are compared. Its `memory` is 0: a report knows arenas
/// only.
LayoutFigures layout_figures(const Report& report);

/// The oracle of a search: the figures of simulated_step(), with memory.
Result<LayoutFigures> simulated_layout(const Scenario& scenario);

/// The oracle of core/validation.
Result<StepPrediction> simulated_prediction(const Scenario& scenario);

/// The prober of an Estimator: the program is neither verified nor checked to fit.
Result<Probe> simulated_probe(const Scenario& scenario);

}  // namespace lockstep
