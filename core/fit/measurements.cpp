#include "core/fit/measurements.hpp"

#include <algorithm>
#include <filesystem>
#include <map>
#include <sstream>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/run_folder/metrics_tail.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/conventions.hpp"
#include "core/validation/mapping.hpp"
#include "core/validation/statistics.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

std::vector<std::string> words_of(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> words;
  for (std::string word; stream >> word;) words.push_back(word);
  return words;
}

SourceSpan place_of(const CsvTable& table, const std::vector<CsvField>& row, const char* column) {
  const int i = table.column(column);
  const CsvField& field = i < 0 ? row.front() : row[to_size(i)];
  return {table.file, field.line, field.column};
}

/// Whether the row takes part in the fit, which it does if nothing is said. A word other than yes
/// and no is added to the errors.
bool is_fitted(const CsvTable& table, const std::vector<CsvField>& row,
               std::vector<Error>& errors) {
  const std::string text = CsvRowReader(table, row, errors).text("fit");
  if (text.empty() || text == "yes") return true;
  if (text != "no") {
    errors.push_back({ErrorKind::Parse, "'fit' is yes, no or empty, got '" + text + "'",
                      place_of(table, row, "fit")});
  }
  return false;
}

void read_published(const CsvTable& table, const std::vector<std::string>& overrides,
                    StepMeasurements& result) {
  TrainingRows read = read_training_rows(table);
  result.errors = std::move(read.errors);
  if (!result.errors.empty()) return;
  std::map<std::string, int> left_out;
  for (std::size_t i = 0; i < read.rows.size(); ++i) {
    const TrainingRow& row = read.rows[i];
    const bool fitted = is_fitted(table, table.rows[i], result.errors);
    const auto step = measured_step_time(row);
    if (!step) {
      ++left_out["step time not given"];
      continue;
    }
    MappedRow mapped = map_row(row, overrides);
    if (!mapped.scenario) {
      ++left_out[std::string(to_string(mapped.reason))];
      continue;
    }
    result.rows.push_back({row.id, row.group(), {*step}, std::move(*mapped.scenario), fitted});
  }
  for (const auto& [reason, count] : left_out) {
    result.remarks.push_back(std::to_string(count) + (count == 1 ? " row" : " rows") +
                             " left out: " + reason);
  }
}

void read_own(const CsvTable& table, const std::vector<std::string>& overrides,
              StepMeasurements& result) {
  require_columns(table, {"scenario", "step_ms"}, result.errors);
  if (!result.errors.empty()) return;
  const fs::path folder = fs::path(table.file).parent_path();
  for (const std::vector<CsvField>& fields : table.rows) {
    CsvRowReader read(table, fields, result.errors);
    const std::string file = read.needed("scenario");
    const std::optional<double> step = read.number("step_ms");
    if (!step && read.text("step_ms").empty()) (void)read.needed("step_ms");
    const bool fitted = is_fitted(table, fields, result.errors);
    if (file.empty() || !step) continue;
    std::vector<std::string> changes = words_of(read.text("set"));
    changes.insert(changes.end(), overrides.begin(), overrides.end());
    const std::string path = (folder / file).string();
    LoadedScenario loaded = load_scenario(path, changes);
    for (Error& error : loaded.errors) {
      if (!error.where) error.where = place_of(table, fields, "scenario");
      result.errors.push_back(std::move(error));
    }
    if (!loaded.ok()) continue;
    if (loaded.points.size() > 1) {
      result.errors.push_back({ErrorKind::InvalidSpec,
                               file + " has a [sweep] of " + std::to_string(loaded.points.size()) +
                                   " points: a step time is of one; choose it in the column 'set'",
                               place_of(table, fields, "scenario")});
      continue;
    }
    const std::string name = read.text("name"), source = read.text("source");
    const std::string set = read.text("set");
    result.rows.push_back({name.empty() ? file + (set.empty() ? "" : " " + set) : name,
                           source.empty() ? file : source,
                           {*step * 1e-3},
                           std::move(loaded.points.front().scenario),
                           fitted});
  }
}

}  // namespace

StepMeasurements read_step_measurements(const CsvTable& table,
                                        const std::vector<std::string>& overrides) {
  StepMeasurements result;
  const bool own = table.column("scenario") >= 0 || table.column("step_ms") >= 0;
  (own ? read_own : read_published)(table, overrides, result);
  if (result.errors.empty() && result.rows.empty()) {
    result.errors.push_back({ErrorKind::InvalidSpec, "no row has a step time and a scenario",
                             SourceSpan{table.file, 1, 1}});
  }
  return result;
}

StepMeasurements read_run_measurement(const std::string& folder,
                                      const std::vector<std::string>& overrides) {
  StepMeasurements result;
  const auto refuse = [&](const std::string& message) {
    result.errors.push_back(invalid(folder + " " + message));
    return result;
  };
  const fs::path path(folder);
  std::error_code ignored;
  if (!fs::exists(path / "scenario.toml", ignored)) {
    return refuse("has no scenario.toml: it is not the folder of a scenario's run");
  }
  bool restarted = false;
  std::vector<double> times;
  for (const StepMetrics& step : MetricsTail((path / "metrics.jsonl").string()).poll(restarted)) {
    if (step.seconds > 0) times.push_back(step.seconds);
  }
  if (times.empty()) {
    return refuse("has no step times in metrics.jsonl: only runs on a real backend have them");
  }
  if (times.size() < 2) {
    return refuse(
        "has one step, and the first is slower than others: run it with --steps 3 or more");
  }
  times.erase(times.begin());
  LoadedScenario loaded = load_scenario((path / "scenario.toml").string(), overrides);
  result.errors = std::move(loaded.errors);
  if (!result.errors.empty()) return result;
  fs::path last = fs::path(folder).lexically_normal();
  if (!last.has_filename()) last = last.parent_path();  // "run/"
  result.rows.push_back({last.filename().string(),
                         folder,
                         {percentile(times, 0.5)},
                         std::move(loaded.points.front().scenario),
                         true});
  return result;
}

std::vector<Observation> observations_of(StepMeasurements& measurements, const StepModeler& modeler,
                                         int threads) {
  std::vector<StepMeasurement>& rows = measurements.rows;
  std::vector<Observation> all(rows.size());
  std::vector<std::string> refused(rows.size());
  ThreadTeam(threads).each(rows.size(), [&](std::size_t i) {
    const Scenario& scenario = rows[i].scenario;
    Result<TimeModel> model = modeler(scenario);
    if (!model) {
      refused[i] = model.error().message;
      return;
    }
    all[i] = {rows[i].name,     rows[i].group,     rows[i].step,
              scenario.cluster, std::move(*model), rows[i].fitted};
  });
  std::vector<Observation> observations;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (refused[i].empty()) {
      observations.push_back(std::move(all[i]));
    } else {
      measurements.remarks.push_back(rows[i].name + " left out: " + refused[i]);
    }
  }
  return observations;
}

}  // namespace lockstep
