// lockstep validate: simulates published runs and collectives, and compares the results with their
// measurements.
#include <fmt/format.h>
#include <fnmatch.h>

#include <algorithm>
#include <chrono>
#include <thread>

#include "backends/simulated_step.hpp"
#include "cli/commands.hpp"
#include "cli/validation_text.hpp"
#include "core/base/nearest.hpp"
#include "core/base/read_file.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/validation/collectives.hpp"
#include "core/validation/plot.hpp"
#include "core/validation/training_validation.hpp"

namespace lockstep {
namespace {

Result<StepPrediction> predicted_step(const Scenario& scenario) {
  const Result<LayoutFigures> figures = simulated_layout(scenario);
  if (!figures) return figures.error();
  const Seconds idle = figures->bubble_fraction * figures->step_time - figures->exposed_comm;
  return StepPrediction{figures->step_time, figures->memory, figures->exposed_comm, idle};
}

bool glob_matches(const std::string& pattern, const std::string& text) {
  return fnmatch(pattern.c_str(), text.c_str(), 0) == 0;
}

std::string took_text(const std::vector<ValidatedRow>& rows, double seconds) {
  std::vector<const ValidatedRow*> slow;
  for (const ValidatedRow& row : rows) {
    if (row.took.v > 1) slow.push_back(&row);
  }
  std::stable_sort(slow.begin(), slow.end(), [](const ValidatedRow* a, const ValidatedRow* b) {
    return a->took.v > b->took.v;
  });
  std::string text = fmt::format("simulated in {:.1f} s", seconds);
  for (std::size_t i = 0; i < std::min<std::size_t>(slow.size(), 5); ++i) {
    text += fmt::format("{} {} {:.1f} s", i == 0 ? "; slowest:" : ",", slow[i]->row.id,
                        slow[i]->took.v);
  }
  return text;
}

int validate_collectives(const ValidateArguments& arguments, const CsvTable& table,
                         const Console& console) {
  const CollectiveRows read = read_collective_rows(table);
  if (!read.errors.empty()) return report_errors(console, read.errors);
  std::vector<CollectiveRow> chosen;
  for (const CollectiveRow& row : read.rows) {
    if (arguments.source.empty() || glob_matches(arguments.source, row.source)) {
      chosen.push_back(row);
    }
  }
  if (!arguments.row.empty())
    return report_error(console, invalid("collectives have no ids: --row is of training runs"));
  if (chosen.empty())
    return report_error(console, invalid("no row is of a source '" + arguments.source + "'"));
  const std::vector<ValidatedCollective> rows = validate_collectives(chosen);
  if (!arguments.svg.empty()) {
    std::vector<PlotPoint> points;
    for (const ValidatedCollective& r : rows) {
      if (!r.error()) continue;
      points.push_back({r.row.hw.substr(0, r.row.hw.find(' ')), r.row.name(), *r.row.time_ms,
                        r.simulated().v * 1e3});
    }
    const Result<void> written = write_file(arguments.svg, plot_svg(points, "time", "ms"));
    if (!written) return report_error(console, written.error());
  }
  console.out << (arguments.json       ? collectives_json(rows, arguments.rows)
                  : arguments.markdown ? collectives_markdown(rows)
                                       : collectives_text(rows, arguments.rows, console.screen()));
  return 0;
}

int validate_training(const ValidateArguments& arguments, const CsvTable& table,
                      const Console& console) {
  TrainingRows read = read_training_rows(table);
  if (!read.errors.empty()) return report_errors(console, read.errors);
  std::vector<TrainingRow> chosen;
  std::vector<std::string> groups, ids;
  for (const TrainingRow& row : read.rows) {
    ids.push_back(row.id);
    groups.push_back(row.group());
    if (!arguments.source.empty() && !glob_matches(arguments.source, row.group())) continue;
    if (!arguments.row.empty() && row.id != arguments.row) continue;
    chosen.push_back(row);
  }
  if (chosen.empty()) {
    const bool row = !arguments.row.empty();
    const std::string near = nearest(row ? arguments.row : arguments.source, row ? ids : groups);
    return report_error(console,
                        invalid(fmt::format("no row of {} is '{}'{}", arguments.file,
                                            row ? arguments.row : arguments.source,
                                            near.empty() ? "" : "; did you mean '" + near + "'?")));
  }
  if (arguments.scenario) {
    for (const TrainingRow& row : chosen) {
      const MappedRow mapped = map_row(row, arguments.set);
      console.out << "# " << row.id << ": " << row.source << "\n"
                  << (mapped.scenario ? print_scenario(*mapped.scenario)
                                      : fmt::format("# not expressed: {}: {}\n",
                                                    to_string(mapped.reason), mapped.detail));
    }
    return 0;
  }

  const bool live = console.live && !arguments.quiet;
  ValidationOptions options;
  options.overrides = arguments.set;
  options.threads = arguments.threads > 0
                        ? arguments.threads
                        : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options.progress = [&](std::size_t done, std::size_t all) {
    if (live) show_status(console, fmt::format("{} of {} rows", done, all));
  };
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ValidatedRow> rows = validate_rows(chosen, predicted_step, options);
  const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
  if (live) show_status(console, "");
  if (!arguments.quiet) report_note(console, took_text(rows, passed.count()));

  if (!arguments.svg.empty()) {
    std::vector<PlotPoint> points;
    for (const ValidatedRow& r : rows) {
      if (!r.time_error()) continue;
      points.push_back(
          {r.row.group(),
           fmt::format("{}: {} ({:+.1f} %)", r.row.id, r.row.model, 100 * *r.time_error()),
           *r.measured, r.predicted->step_time.v});
    }
    const Result<void> written = write_file(arguments.svg, plot_svg(points, "step time", "s"));
    if (!written) return report_error(console, written.error());
  }
  const ValidationSummary summary = summarize(rows);
  console.out << (arguments.json ? validation_json(summary, rows, arguments.rows)
                  : arguments.markdown
                      ? validation_markdown(summary)
                      : validation_text(summary, rows, arguments.rows, console.screen()));
  return 0;
}

}  // namespace

int validate_command(const ValidateArguments& arguments, const Console& console) {
  const Result<std::string> text = read_file(arguments.file);
  if (!text) return report_error(console, text.error());
  const Result<CsvTable> table = parse_csv(*text, arguments.file);
  if (!table) return report_error(console, table.error());
  return table->column("collective") >= 0 ? validate_collectives(arguments, *table, console)
                                          : validate_training(arguments, *table, console);
}

}  // namespace lockstep
