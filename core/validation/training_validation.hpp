// Validation: published training runs, each mapped, simulated and laid beside its measurement.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/base/units.hpp"
#include "core/validation/mapping.hpp"
#include "core/validation/statistics.hpp"
#include "core/validation/training_row.hpp"

namespace lockstep {

struct StepPrediction {
  Seconds step_time;
  Bytes peak_memory;  // of the fullest rank
};
/// The simulator. Called by several threads at once.
using StepOracle = std::function<Result<StepPrediction>(const Scenario&)>;

struct ValidatedRow {
  TrainingRow row;
  MappedRow mapped;
  std::optional<double> measured;  // step time, s (conventions.hpp)
  std::optional<StepPrediction> predicted;
  Seconds took;  // of the machine, to lower and simulate it

  /// simulated / measured - 1; none where either is missing.
  std::optional<double> time_error() const;
  std::optional<double> memory_error() const;
  /// Whether the simulated peak is within the card's memory; none without a prediction.
  std::optional<bool> fits() const;
  const Scenario& scenario() const { return *mapped.scenario; }  // requires mapped.scenario
};

struct ValidationOptions {
  int threads = 1;
  std::vector<std::string> overrides;                               // of every scenario
  std::function<void(std::size_t done, std::size_t all)> progress;  // by one thread at a time
};

/// Rows in the order given. Every expressed row is simulated on cards with memory without end, so
/// that a run that is wrongly refused still has a time; what fits is judged by the peak. A scenario
/// that the oracle refuses for another reason counts as not expressed.
std::vector<ValidatedRow> validate_rows(const std::vector<TrainingRow>& rows,
                                        const StepOracle& oracle, const ValidationOptions& options);

/// Rows of one source, or of all.
struct ValidationFigures {
  std::string source;  // TrainingRow::group(); "all"
  std::size_t rows = 0, expressed = 0;
  ErrorFigures time;                          // of the expressed rows that have a step time
  ErrorFigures memory;                        // of those that print memory
  ErrorFigures memory_allocated;              // of those that print the allocator's maximum
  RankAgreement order;                        // inside sweeps
  std::size_t ran = 0, wrongly_refused = 0;   // ran when measured; simulated not to fit
  std::size_t out_of_memory = 0, missed = 0;  // did not fit when measured; simulated to fit
};
/// A sweep is the rows of one table of a source with the same model, cards, batch, precision and
/// day, which differ in layout.
ValidationFigures figures_of(const std::string& source,
                             const std::vector<const ValidatedRow*>& rows);

struct UnexpressedRows {
  Unexpressed reason;
  std::vector<std::string> details;  // each once
  std::vector<std::string> ids;
};

struct ValidationSummary {
  ValidationFigures all;
  std::vector<ValidationFigures> sources;    // in the order of the file
  std::vector<UnexpressedRows> unexpressed;  // by reason
};
ValidationSummary summarize(const std::vector<ValidatedRow>& rows);

/// The summary, the rows if `with_rows`, as JSON with a final line end.
std::string validation_json(const ValidationSummary& summary, const std::vector<ValidatedRow>& rows,
                            bool with_rows);

}  // namespace lockstep
