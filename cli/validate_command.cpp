// lockstep validate: simulates published runs and collectives, and compares the results with their
// measurements.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "cli/commands.hpp"
#include "cli/validate_campaigns.hpp"
#include "cli/validation_text.hpp"
#include "core/base/thread_team.hpp"
#include "core/campaign/anchors.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "core/validation/collectives.hpp"
#include "core/validation/plot.hpp"
#include "core/validation/row_choice.hpp"
#include "core/validation/training_validation.hpp"

namespace lockstep {
namespace {

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
  const CollectiveRows chosen = choose_rows(read_collective_rows(table), arguments);
  if (!chosen.errors.empty()) return report_errors(console, chosen.errors);
  const std::vector<ValidatedCollective> rows = validate_collectives(chosen.rows);
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
  const TrainingRows chosen = choose_rows(read_training_rows(table), arguments);
  if (!chosen.errors.empty()) return report_errors(console, chosen.errors);
  if (arguments.scenario) {
    for (const TrainingRow& row : chosen.rows) {
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
  options.threads = threads_or_cores(arguments.threads);
  options.progress = [&](std::size_t done, std::size_t all) {
    if (live) show_status(console, fmt::format("{} of {} rows", done, all));
  };
  const auto start = std::chrono::steady_clock::now();
  const std::vector<ValidatedRow> rows = validate_rows(chosen.rows, simulated_prediction, options);
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
  const Result<CsvTable> table = read_csv(arguments.file);
  if (!table) return report_error(console, table.error());
  if (has_campaigns(*table)) return validate_campaigns(arguments, *table, console);
  return has_collectives(*table) ? validate_collectives(arguments, *table, console)
                                 : validate_training(arguments, *table, console);
}

}  // namespace lockstep
