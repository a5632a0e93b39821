#include "core/advice/advice_json.hpp"

#include "core/advice/space_json.hpp"

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

/// The layout that was found, or null with the failure.
void add_best(Json& json, const char* name, const BestLayout& best, const std::string& unit) {
  json[name] = best.found ? found_json(*best.found, unit) : Json(nullptr);
  if (best.failure) json["failure"] = best.failure->message;
}

}  // namespace

Json advice_json(const Advice& advice) {
  const std::string unit = trained_on(advice.asked.scenario);
  Json json = {{"task", search_task(advice.asked.scenario)},
               {"parameters", advice.asked.question.parameters},
               {"gpus", advice.asked.question.gpus},
               {"stopped", advice.stopped}};
  add_best(json, "answer", advice.best, unit);
  if (!advice.best.found) json["would_fit"] = Json::array();
  for (const WayToFit& way : advice.ways) {
    json["would_fit"].push_back({{"option", way.option}, {"change", way.words}});
    json["would_fit"].back().update(found_json(way.found, unit));
  }
  for (const RuleAdvice& r : advice.rules) {
    Json rule = {{"rule", r.rule.rule}, {"strategy", r.rule.strategy}, {"because", r.rule.because}};
    add_best(rule, "simulated", r.best, unit);
    if (r.best.found) rule["slower"] = r.slower;
    if (!r.why.empty()) rule["why"] = r.why;
    json["rules"].push_back(std::move(rule));
  }
  return json;
}

}  // namespace lockstep
