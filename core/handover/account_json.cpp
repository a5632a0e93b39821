// What was handed over, and what could not be, as JSON; and errors of an imported plan.
#include <nlohmann/json.hpp>

#include "core/handover/handover.hpp"
#include "core/handover/plan_import.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

std::string text_of(const Json& json) {
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Error error_of_plan(Error error, const PlanImport& plan, const std::string& from,
                    const std::string& scenario_file) {
  const auto line = error.where ? static_cast<std::size_t>(error.where->line) : 0;
  const std::string reason =
      line > 0 && line <= plan.reasons.size() ? plan.reasons[line - 1] : std::string();
  if (reason.empty()) return error;
  const auto& place = plan.places[line - 1];
  error.message = (place ? "" : from + ": ") + reason + ": " + error.message;
  if (place) {
    error.where = place;
  } else if (scenario_file.empty()) {
    error.where.reset();
  }
  return error;
}

}  // namespace

std::optional<Trainer> trainer_named(std::string_view name) {
  for (const Trainer trainer : {Trainer::Torchtitan, Trainer::Megatron, Trainer::DeepSpeed}) {
    if (command_name(trainer) == name) return trainer;
  }
  return std::nullopt;
}

std::string plan_json(const PlanImport& plan) {
  return text_of({{"scenario", plan.text},
                  {"taken", plan.taken},
                  {"derived", plan.derived},
                  {"assumed", plan.assumed},
                  {"without_effect", plan.without_effect},
                  {"lost", plan.lost},
                  {"of_others", plan.of_others},
                  {"unknown", plan.unknown}});
}

std::string handover_json(const Handover& plan) {
  return text_of({{"text", plan.text}, {"launch", plan.launch}, {"unsaid", plan.unsaid}});
}

std::vector<Error> errors_of_plan(const std::vector<Error>& errors, const PlanImport& plan,
                                  const std::string& from, const std::string& scenario_file) {
  std::vector<Error> own;
  for (const Error& error : errors) own.push_back(error_of_plan(error, plan, from, scenario_file));
  return own;
}

}  // namespace lockstep
