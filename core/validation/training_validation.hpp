// Training validation: maps and simulates published training runs, and compares each with its
// measurement.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/memory/device_memory.hpp"
#include "core/validation/mapping.hpp"
#include "core/validation/statistics.hpp"
#include "core/validation/training_row.hpp"

namespace lockstep {

struct StepPrediction {
  Seconds step_time;
  MemoryFigures memory;       // of the rank that needs most
  Seconds exposed_comm = {};  // of a step, mean over ranks
  Seconds idle = {};          // neither this nor computation, likewise
};
/// Predicts a step; in practice the simulator. Several threads call it at once.
using StepOracle = std::function<Result<StepPrediction>(const Scenario&)>;

struct ValidatedRow {
  TrainingRow row;
  MappedRow mapped;
  std::optional<double> measured;  // step time in s (see conventions.hpp)
  std::optional<StepPrediction> predicted;
  Seconds took;  // how long lowering and simulating took
  /// simulated / measured - 1; nullopt if either is missing. Memory is compared with what the
  /// source measured: the most that was allocated, or all that the process holds.
  std::optional<double> time_error() const;
  std::optional<double> memory_error() const;
  /// What the source printed, in bytes.
  std::optional<double> measured_memory() const;
  /// Whether what the fullest rank needs is within the card's memory; nullopt without a prediction.
  std::optional<bool> fits() const;
  const Scenario& scenario() const { return *mapped.scenario; }  // requires mapped.scenario
};

struct ValidationOptions {
  int threads = 1;
  std::vector<std::string> overrides;  // for every scenario
  /// Called after each row, by one thread at a time.
  std::function<void(std::size_t done, std::size_t all)> progress;
  std::string given_by = kOverrideFile;  // that of parse_scenario(), of `overrides`
};

/// Validates rows; results are in the order of the rows. Every row that has a scenario is simulated
/// on cards with unlimited memory, so that a run that is wrongly refused still has a time; whether
/// it fits is judged by its peak. A scenario that the oracle refuses for another reason counts as
/// one that cannot be expressed.
std::vector<ValidatedRow> validate_rows(const std::vector<TrainingRow>& rows,
                                        const StepOracle& oracle, const ValidationOptions& options);

/// Figures of the rows of one source, or of all.
struct ValidationFigures {
  std::string source;                         // TrainingRow::group(), or "all"
  std::size_t rows = 0, expressed = 0;        // all rows, and those that have a scenario
  ErrorFigures time;                          // of rows with a scenario and a step time
  ErrorFigures memory;                        // of those that print memory
  ErrorFigures memory_allocated;              // of those that print the allocator's maximum
  RankAgreement order;                        // within sweeps
  std::size_t ran = 0, wrongly_refused = 0;   // rows that ran; of them, those simulated not to fit
  std::size_t out_of_memory = 0, missed = 0;  // rows that did not fit; of them, simulated to fit
};
/// Computes the figures of some rows. A sweep consists of the rows of one table of a source that
/// have the same model, cards, batch, precision and day, and differ in layout.
ValidationFigures figures_of(const std::string& source,
                             const std::vector<const ValidatedRow*>& rows);

/// The order of the runs of one sweep.
struct SweepOrder {
  std::string name;  // source, model, GPUs, batch and day
  std::size_t runs = 0;
  RankAgreement order;
  /// What the layout loses that is simulated fastest, against the one that was measured fastest.
  double loss = 0;
  std::string chosen, best;                 // the ids of these two rows
  double chosen_error = 0, best_error = 0;  // time_error()
  /// "computation", "exposed communication" or "waiting": the part of the step in which the first
  /// choice is simulated to gain most over the other. Where it was not faster, that part is to
  /// blame.
  std::string_view gains_by;
};

struct UnexpressedRows {
  Unexpressed reason;
  std::vector<std::string> details;  // each once
  std::vector<std::string> ids;
};

struct ValidationSummary {
  ValidationFigures all;
  std::vector<ValidationFigures> sources;    // in the order of the file
  std::vector<SweepOrder> sweeps;            // those with pairs, in the order of the file
  std::vector<UnexpressedRows> unexpressed;  // by reason
};
ValidationSummary summarize(const std::vector<ValidatedRow>& rows);

/// The summary, and the rows if `with_rows`, as JSON with a final line end.
std::string validation_json(const ValidationSummary& summary, const std::vector<ValidatedRow>& rows,
                            bool with_rows);

}  // namespace lockstep
