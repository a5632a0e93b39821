// lockstep report: prints the report of a run or a trace.
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/open_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/timeline.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

int report_command(const ReportArguments& arguments, const Console& console) {
  const Result<Run> run = open_run(arguments.run, console);
  if (!run) return report_error(console, run.error());
  if (arguments.timeline) {
    (arguments.json ? console.err : console.out)
        << draw_timeline(run->trace, {console.width, 64}) << "\n";
  }
  if (arguments.json) {
    console.out << report_json(run->report);
    return 0;
  }
  const auto scenario = std::filesystem::path(arguments.run) / "scenario.toml";
  if (!std::filesystem::exists(scenario)) {
    console.out << report_text(run->report, arguments.run);
    return 0;
  }
  const LoadedScenario loaded = load_scenario(scenario.string(), {});
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  console.out << report_text(run->report, loaded.points.front().scenario);
  return 0;
}

}  // namespace lockstep
