// lockstep compare: tells in what two runs differ.
#include <optional>

#include "cli/commands.hpp"
#include "cli/open_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/compare.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

/// A run, or the faults that kept it from being there.
struct Side {
  std::optional<Run> run;
  std::vector<Error> errors;
};

Side failed_side(Error error) { return {std::nullopt, {std::move(error)}}; }

/// Simulates a step of a scenario, whether it fits its devices or not.
Side simulate_side(const std::string& path) {
  LoadedScenario loaded = load_scenario(path, {});
  if (!loaded.ok()) return {std::nullopt, std::move(loaded.errors)};
  Result<Run> ran = simulated_run(loaded.points.front().scenario, Devices::Unlimited);
  if (!ran) return failed_side(ran.error());
  return {std::move(*ran), {}};
}

Side open_side(const std::string& path, const Console& console) {
  if (path.ends_with(".toml")) return simulate_side(path);
  Result<Run> run = open_run(path, console);
  if (!run) return failed_side(run.error());
  return {std::move(*run), {}};
}

}  // namespace

int compare_command(const CompareArguments& arguments, const Console& console) {
  const Side a = open_side(arguments.a, console);
  if (!a.run) return report_errors(console, a.errors);
  const Side b = open_side(arguments.b, console);
  if (!b.run) return report_errors(console, b.errors);
  const Comparison comparison = compare(a.run->report, a.run->trace, b.run->report, b.run->trace);
  if (arguments.json) {
    console.out << comparison_json(a.run->report, b.run->report, comparison);
    return 0;
  }
  console.out << comparison_text(arguments.a, a.run->report, arguments.b, b.run->report, comparison,
                                 console.screen());
  return 0;
}

}  // namespace lockstep
