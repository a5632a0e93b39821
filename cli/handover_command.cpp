// lockstep export torchtitan|megatron|deepspeed: the plan of a scenario, for another trainer; and
// lockstep import, the other way round.
#include <nlohmann/json.hpp>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
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

/// An error of the scenario that was made of a plan, as one of the plan's file: what that file
/// says, or leaves out, is what the user can mend. `file` is the scenario's, if it was written.
Error error_of_plan(Error error, const PlanImport& plan, const std::string& from,
                    const std::string& file) {
  const auto line = error.where ? static_cast<std::size_t>(error.where->line) : 0;
  const std::string reason =
      line > 0 && line <= plan.reasons.size() ? plan.reasons[line - 1] : std::string();
  if (reason.empty()) return error;
  const auto& place = plan.places[line - 1];
  error.message = (place ? "" : from + ": ") + reason + ": " + error.message;
  if (place) {
    error.where = place;
  } else if (file.empty()) {
    error.where.reset();
  }
  return error;
}

}  // namespace

int import_plan_command(const WeightsArguments& arguments, const Console& console) {
  constexpr std::int64_t kLongestPlan = 16 << 20;
  const Result<std::string> text = read_file(arguments.from, kLongestPlan);
  if (!text) return report_error(console, text.error());
  const Trainer trainer = arguments.layout == "torchtitan" ? Trainer::Torchtitan
                          : arguments.layout == "megatron" ? Trainer::Megatron
                                                           : Trainer::DeepSpeed;
  const Result<PlanImport> plan = import_plan(trainer, *text, arguments.from, arguments.plan);
  if (!plan) return report_error(console, plan.error());
  if (arguments.json) {
    console.out << json_text({{"scenario", plan->text},
                              {"taken", plan->taken},
                              {"assumed", plan->assumed},
                              {"without_effect", plan->without_effect},
                              {"lost", plan->lost}});
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
    std::vector<Error> errors;
    for (const Error& error : loaded.errors) {
      errors.push_back(error_of_plan(error, *plan, arguments.from, arguments.out));
    }
    return report_errors(console, errors);
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
    console.out << json_text({{"text", plan->text}, {"launch", launch}, {"unsaid", plan->unsaid}});
    return 0;
  }
  report_note(console, "start it with: " + launch);
  for (const std::string& unsaid : plan->unsaid)
    report_note(console, "no equivalent setting: " + unsaid);
  return 0;
}

}  // namespace lockstep
