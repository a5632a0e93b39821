// lockstep campaign: what a training of weeks takes, failures included.
#include "cli/campaign_step.hpp"
#include "cli/campaign_text.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {

int campaign_command(const CampaignArguments& arguments, const Console& console) {
  LoadedScenario loaded = load_scenario(arguments.scenario, arguments.set);
  if (!loaded.ok()) return report_errors(console, loaded.errors);
  report_warnings(console, loaded.warnings);
  if (loaded.points.size() > 1) {
    return report_error(console,
                        invalid("a campaign is of one scenario, and " + arguments.scenario +
                                " is a sweep: choose a value of each of its keys by --set"));
  }
  const Result<CampaignAnswer> answer = answer_campaign(
      loaded.points.front().scenario, simulated_facts, arguments.seed, arguments.runs);
  if (!answer) return report_error(console, answer.error());
  console.out << (arguments.json ? json_text(campaign_json(*answer))
                                 : campaign_text(*answer, console.screen()));
  return 0;
}

}  // namespace lockstep
