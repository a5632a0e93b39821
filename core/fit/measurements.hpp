// Measurements: reads step times that a user has measured, and their scenarios, from a CSV file or
// from the folders of runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/fit/fit.hpp"
#include "core/spec/scenario.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

/// A step time, and the scenario whose step was measured.
struct StepMeasurement {
  std::string name, group;
  Seconds step;
  Scenario scenario;
  bool fitted = true;
};

struct StepMeasurements {
  std::vector<StepMeasurement> rows;
  std::vector<std::string> remarks;  // what was left out, one sentence each
  std::vector<Error> errors;         // all faults, in file order
};

/// Reads a table in one of two forms.
/// With the columns of validation/training.csv, map_row() makes a row a scenario, the group of a
/// row is its table, and rows that cannot be expressed are remarked.
/// Otherwise it has the columns `scenario` (a file, relative to the table's folder) and `step_ms`,
/// and perhaps `set` (overrides, separated by blanks), `name` and `source`. The group of a row is
/// its `source`, or else the scenario's file.
/// In both, "no" in a column `fit` keeps a row out of the fit. `overrides` apply to every scenario.
StepMeasurements read_step_measurements(const CsvTable& table,
                                        const std::vector<std::string>& overrides);

/// Reads a folder of `lockstep run --out`: scenario.toml, and from metrics.jsonl the median time of
/// the steps after the first. Errors: InvalidSpec if the folder holds a program's run, a simulated
/// one or fewer than two steps; those of the scenario.
StepMeasurements read_run_measurement(const std::string& folder,
                                      const std::vector<std::string>& overrides);

/// Makes a scenario's program, once, and returns the model of its time on clusters; in practice
/// this is the simulator. It does not ask whether the program fits into memory, because a run that
/// was measured did. Several threads call it at once.
using StepModeler = std::function<Result<TimeModel>(const Scenario&)>;

/// Gives each measurement its model. A scenario that the modeler refuses is remarked and left out.
std::vector<Observation> observations_of(StepMeasurements& measurements, const StepModeler& modeler,
                                         int threads);

}  // namespace lockstep
