// lockstep export torchtitan|megatron|deepspeed: the plan of a scenario, for another trainer.
#include "cli/commands.hpp"
#include "core/handover/handover.hpp"
#include "core/run_folder/run_folder.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

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
  if (arguments.out.empty()) {
    console.out << plan->text;
  } else {
    if (const auto written = write_file(arguments.out, plan->text); !written) {
      return report_error(console, written.error());
    }
    if (const auto at = launch.find("FILE"); at != std::string::npos) {
      launch.replace(at, 4, arguments.out);
    }
  }
  report_note(console, "start it with: " + launch);
  for (const std::string& unsaid : plan->unsaid) report_note(console, "not said: " + unsaid);
  return 0;
}

}  // namespace lockstep
