// lockstep compare: tells in what two runs differ.
#include <memory>

#include "backends/backends.hpp"
#include "cli/commands.hpp"
#include "cli/open_run.hpp"
#include "cli/report_text.hpp"
#include "core/analysis/compare.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

/// A run, or the faults that kept it from being there.
struct Side {
  std::optional<Run> run;
  std::vector<Error> errors;
};

Side failed_side(Error error) { return {std::nullopt, {std::move(error)}}; }

/// Simulates a step of a scenario, whether it fits its devices or not.
Side simulate_side(const std::string& path, const Console& console) {
  LoadedScenario loaded = load_scenario(path, {});
  if (!loaded.ok()) return {std::nullopt, std::move(loaded.errors)};
  const Scenario& scenario = loaded.points.front().scenario;
  Result<Program> program = lower(scenario);
  if (!program) return failed_side(program.error());
  BackendOptions options;
  options.what_if = scenario.what_if;
  Result<std::unique_ptr<Backend>> backend = make_backend("sim", options);
  if (!backend) return failed_side(backend.error());
  RunOptions run_options;
  run_options.cancel = console.cancel;
  Result<RunResult> ran = (*backend)->run(*program, scenario.cluster, run_options);
  if (!ran) return failed_side(ran.error());
  Report report = analyze(ran->trace, *program, scenario.cluster);
  return {Run{std::move(report), std::move(ran->trace), {}, {}, {}}, {}};
}

Side open_side(const std::string& path, const Console& console) {
  if (path.ends_with(".toml")) return simulate_side(path, console);
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
  console.out << comparison_text(arguments.a, a.run->report, arguments.b, b.run->report,
                                 comparison);
  return 0;
}

}  // namespace lockstep
