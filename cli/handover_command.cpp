// lockstep export torchtitan|megatron|deepspeed: the plan of a scenario, for another trainer; and
// lockstep import, the other way round.
#include <optional>

#include "cli/commands.hpp"
#include "core/base/read_file.hpp"
#include "core/handover/handover.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

namespace {

/// The names on lines of their own would be a page.
std::string joined_names(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

int import_plan_command(const WeightsArguments& arguments, const Console& console) {
  constexpr std::int64_t kLongestPlan = 16 << 20;
  const Result<std::string> text = read_file(arguments.from, kLongestPlan);
  if (!text) return report_error(console, text.error());
  const std::optional<Trainer> trainer = trainer_named(arguments.layout);
  if (!trainer) return report_error(console, invalid("no plans of " + arguments.layout));
  const Result<PlanImport> plan = import_plan(*trainer, *text, arguments.from, arguments.plan);
  if (!plan) return report_error(console, plan.error());
  if (arguments.json) {
    console.out << plan_json(*plan);
  } else if (arguments.out.empty()) {
    console.out << plan->text;
  }
  const std::string name = arguments.out.empty() ? "scenario.toml" : arguments.out;
  if (!arguments.out.empty()) {
    if (const auto written = write_file(arguments.out, plan->text); !written) {
      return report_error(console, written.error());
    }
  }
  if (!arguments.json) {
    for (const std::string& taken : plan->taken) report_note(console, "taken: " + taken);
    for (const std::string& assumed : plan->assumed) report_note(console, "assumed: " + assumed);
    if (!plan->without_effect.empty()) {
      report_note(console, "without effect on a plan: " + joined_names(plan->without_effect));
    }
    for (const std::string& lost : plan->lost) report_note(console, "ignored: " + lost);
  }
  // What the file says may be what a scenario refuses, which the user should know now.
  const LoadedScenario loaded = parse_scenario(plan->text, name, {});
  if (!loaded.ok()) {
    return report_errors(console,
                         errors_of_plan(loaded.errors, *plan, arguments.from, arguments.out));
  }
  report_warnings(console, loaded.warnings);
  return 0;
}

int handover_command(const WeightsArguments& arguments, const Console& console) {
  const LoadedScenario loaded = load_scenario(arguments.from, arguments.set);
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  if (loaded.points.size() > 1) {
    return report_error(
        console, invalid(arguments.from + " is a sweep of " + std::to_string(loaded.points.size()) +
                         " scenarios: choose one with --set"));
  }
  const Result<Handover> plan = hand_over(arguments.layout, loaded.points.front().scenario);
  if (!plan) return report_error(console, plan.error());
  std::string launch = plan->launch;
  if (arguments.out.empty() && !arguments.json) {
    console.out << plan->text;
  } else if (!arguments.out.empty()) {
    if (const auto written = write_file(arguments.out, plan->text); !written) {
      return report_error(console, written.error());
    }
    if (const auto at = launch.find("FILE"); at != std::string::npos) {
      launch.replace(at, 4, arguments.out);
    }
  }
  if (arguments.json) {
    console.out << handover_json({plan->text, launch, plan->unsaid});
    return 0;
  }
  report_note(console, "start it with: " + launch);
  for (const std::string& unsaid : plan->unsaid)
    report_note(console, "no equivalent setting: " + unsaid);
  return 0;
}

}  // namespace lockstep
