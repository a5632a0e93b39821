// Measurements: reads step times that a user has, and the scenarios that they are of: a CSV, or the
// folders of runs.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/fit/fit.hpp"
#include "core/spec/scenario.hpp"
#include "core/validation/csv.hpp"

namespace lockstep {

/// A step time and the scenario that it was measured of.
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

/// Reads a table in one of two forms. With the columns of validation/training.csv a row becomes a
/// scenario by map_row(), its group is its table, and rows that cannot be expressed are remarked.
/// With the columns `scenario` (a file, relative to the table's folder) and `step_ms`, and perhaps
/// `set` (overrides, separated by blanks), `name` and `source`, the group is `source`, or the
/// scenario's file. In both a column `fit` that holds "no" keeps a row out of the fit. `overrides`
/// are those of every scenario.
StepMeasurements read_step_measurements(const CsvTable& table,
                                        const std::vector<std::string>& overrides);

/// Reads a folder of `lockstep run --out`: scenario.toml, and from metrics.jsonl the median time of
/// the steps after the first. Errors: InvalidSpec if the folder holds a program's run, a simulated
/// one or fewer than two steps; those of the scenario.
StepMeasurements read_run_measurement(const std::string& folder,
                                      const std::vector<std::string>& overrides);

/// Makes a scenario's program, once, and returns its time on clusters; in practice the simulator.
/// It does not ask whether the program fits, for a run that was measured did. Several threads call
/// it at once.
using StepModeler = std::function<Result<TimeModel>(const Scenario&)>;

/// Gives each measurement its model. A scenario that the modeler refuses is remarked and left out.
std::vector<Observation> observations_of(StepMeasurements& measurements, const StepModeler& modeler,
                                         int threads);

}  // namespace lockstep
