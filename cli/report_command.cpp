// lockstep report: prints the report of a run or a trace.
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "cli/names_text.hpp"
#include "cli/open_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/timeline.hpp"
#include "core/analysis/timeline_svg.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

int report_command(const ReportArguments& arguments, const Console& console) {
  const Result<Run> run = open_run(arguments.run, console);
  if (!run) return report_error(console, run.error());
  if (arguments.timeline) {
    (arguments.json ? console.err : console.out)
        << draw_timeline(run->trace, {console.width, 64}) << "\n";
  }
  if (!arguments.picture.empty()) {
    const auto written = write_file(arguments.picture, timeline_svg(run->trace));
    if (!written) return report_error(console, written.error());
  }
  if (arguments.json) {
    if (arguments.names == 0) {
      console.out << report_json(run->report);
      return 0;
    }
    auto report = nlohmann::ordered_json::parse(report_json(run->report));
    report["names"] = names_json(run->trace, arguments.names);
    console.out << json_text(report);
    return 0;
  }
  const auto scenario = std::filesystem::path(arguments.run) / "scenario.toml";
  if (std::filesystem::exists(scenario)) {
    const LoadedScenario loaded = load_scenario(scenario.string(), {});
    if (!loaded.ok()) return report_errors(console, loaded.errors);
    console.out << report_text(run->report, loaded.points.front().scenario, console.screen());
  } else {
    console.out << report_text(run->report, arguments.run, console.screen());
  }
  if (arguments.names > 0) {
    console.out << "\n" << names_text(run->trace, arguments.names, console.screen());
  }
  return 0;
}

}  // namespace lockstep
