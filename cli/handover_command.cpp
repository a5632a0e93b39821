// lockstep export torchtitan|megatron|deepspeed: the plan of a scenario, for another trainer; and
// lockstep import, the other way round.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <optional>

#include "cli/commands.hpp"
#include "cli/show_json.hpp"
#include "core/base/read_file.hpp"
#include "core/format/format.hpp"
#include "core/handover/handover.hpp"
#include "core/model/model.hpp"
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

/// Names and values of --arg.
Result<std::map<std::string, std::string>> values_of(const std::vector<std::string>& arguments) {
  std::map<std::string, std::string> values;
  for (const std::string& argument : arguments) {
    const std::size_t equals = argument.find('=');
    std::string name = argument.substr(0, equals);
    while (name.starts_with('-')) name.erase(0, 1);
    if (equals == std::string::npos || name.empty()) {
      return invalid("--arg " + argument + ": NAME=VALUE is expected");
    }
    values[name] = argument.substr(equals + 1);
  }
  return values;
}

/// Says how many parameters the model has, and warns where a name says another number.
void report_parameters(const Scenario& scenario, const PlanImport& plan, const std::string& file,
                       const Console& console) {
  if (scenario.model.architecture == Architecture::Synthetic) return;
  const auto count = static_cast<double>(layers_of(scenario).parameter_count());
  report_note(console, "parameters: " + count_text(count));
  constexpr double kNear = 0.15;
  std::vector<std::string> names = plan.names;
  names.push_back(std::filesystem::path(file).filename().string());
  for (const std::string& name : names) {
    const std::vector<double> said = counts_in(name);
    const bool other = !said.empty() && std::none_of(said.begin(), said.end(), [&](double value) {
      return std::abs(value / count - 1) <= kNear;
    });
    if (!other) continue;
    report_warnings(console, {invalid("the name " + name + " says " + count_text(said.front()) +
                                      " parameters, and the model has " + count_text(count) +
                                      ": see what is assumed")});
  }
}

void report_account(const PlanImport& plan, const Console& console) {
  for (const std::string& taken : plan.taken) report_note(console, "taken: " + taken);
  const auto together = [&](const char* what, const std::vector<std::string>& names) {
    if (!names.empty()) report_note(console, what + joined_names(names));
  };
  together("read beside others: ", plan.derived);
  for (const std::string& assumed : plan.assumed) report_note(console, "assumed: " + assumed);
  together("without effect on a plan: ", plan.without_effect);
  for (const std::string& lost : plan.lost) report_note(console, "not expressible: " + lost);
  together("of other programs: ", plan.of_others);
  for (const std::string& unknown : plan.unknown) report_note(console, "unknown: " + unknown);
}

}  // namespace

int import_plan_command(const WeightsArguments& arguments, const Console& console) {
  constexpr std::int64_t kLongestPlan = 16 << 20;
  const Result<std::string> text = read_file(arguments.from, kLongestPlan);
  if (!text) return report_error(console, text.error());
  const std::optional<Trainer> trainer = trainer_named(arguments.layout);
  if (!trainer) return report_error(console, invalid("no plans of " + arguments.layout));
  const auto values = values_of(arguments.arguments);
  if (!values) return report_error(console, values.error());
  PlanOptions options = arguments.plan;
  options.arguments = *values;
  const Result<PlanImport> plan = import_plan(*trainer, *text, arguments.from, options);
  if (!plan) return report_error(console, plan.error());
  if (arguments.strict && !plan->assumed.empty()) {
    std::vector<Error> errors;
    for (const std::string& assumed : plan->assumed) {
      errors.push_back(invalid(arguments.from + ": assumed, which --strict refuses: " + assumed));
    }
    return report_errors(console, errors);
  }
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
  if (!arguments.json) report_account(*plan, console);
  // What the file says may be what a scenario refuses, which the user should know now.
  const LoadedScenario loaded = parse_scenario(plan->text, name, {});
  if (!loaded.ok()) {
    return report_errors(console,
                         errors_of_plan(loaded.errors, *plan, arguments.from, arguments.out));
  }
  report_warnings(console, loaded.warnings);
  if (!arguments.json) {
    report_parameters(loaded.points.front().scenario, *plan, arguments.from, console);
  }
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
