#include "core/campaign/answer.hpp"

#include <algorithm>
#include <string>
#include <utility>

namespace lockstep {
namespace {

using Json = nlohmann::ordered_json;

// How many campaigns say what a change is worth, and which interval is best: with the same seeds
// their difference needs fewer than the length of one.
constexpr int kMostCompared = 200;

Json spread_json(const Spread& spread) {
  return {
      {"median", spread.median}, {"p10", spread.low}, {"p90", spread.high}, {"mean", spread.mean}};
}

/// null for what is 0 because it is not known.
Json known_json(const Spread& spread) { return spread.mean > 0 ? spread_json(spread) : Json(); }

Json phases_json(const CampaignAnswer& answer) {
  Json list = Json::array();
  for (std::size_t i = 0; i < answer.plan.phases.size(); ++i) {
    const CampaignPhase& phase = answer.plan.phases[i];
    list.push_back({{"name", phase.name},
                    {"steps", phase.steps},
                    {"tokens_per_step", phase.tokens_per_step},
                    {"gpus", phase.gpus},
                    {"step_s", to_seconds(phase.step).v},
                    {"slow_ranks_s", to_seconds(phase.slowed).v},
                    {"checkpoint_bytes", answer.facts.phases[i].facts.checkpoint.v},
                    {"checkpoint_interval_steps", phase.interval},
                    {"checkpoint_pause_s", to_seconds(phase.pause).v},
                    {"checkpoint_late_s", to_seconds(phase.late).v},
                    {"restart_s", to_seconds(phase.restart).v},
                    {"mean_time_between_failures_s", phase.rates.mean_time().v},
                    {"goodput_renewal_theory", answer.closed_goodput[i]}});
  }
  return list;
}

}  // namespace

Result<CampaignAnswer> answer_campaign(const Scenario& scenario, const FactsOracle& oracle,
                                       std::uint64_t seed, int runs) {
  Result<CampaignFacts> facts = campaign_facts(scenario, oracle);
  if (!facts) return facts.error();
  CampaignAnswer answer;
  answer.seed = seed;
  answer.plan = plan_campaign(*facts);
  if (!simulate_campaign(answer.plan, seed).finished) {
    return invalid(
        "the campaign makes no progress: failures come before the next checkpoint, or "
        "before training goes on; see checkpoint.interval, campaign.spare_nodes, "
        "campaign.detection_s and campaign.load_s");
  }
  answer.summary = summarize_campaigns(answer.plan, seed, runs);
  for (const CampaignPhase& phase : answer.plan.phases) {
    answer.closed_goodput.push_back(closed_goodput(answer.plan, phase));
  }
  const int compared = std::min(runs, kMostCompared);
  answer.interval = interval_answer(answer.plan, longest_phase(answer.plan), seed, compared);
  answer.spares = spares_needed(answer.plan);
  answer.gains = campaign_gains(*facts, seed, compared);
  answer.facts = std::move(*facts);
  return answer;
}

Json campaign_json(const CampaignAnswer& answer) {
  const CampaignSummary& s = answer.summary;
  Json parts, failures;
  for (const auto part : Indices<CampaignPart>(kNumCampaignParts)) {
    parts[std::string(to_string(part))] = spread_json(s.shares[to_size(part)]);
  }
  for (const auto cause : Indices<FailureCause>(kNumCauses)) {
    failures[std::string(to_string(cause))] = s.failures[to_size(cause)];
  }
  Json helps = Json::array();
  for (const CampaignGain& gain : answer.gains) {
    helps.push_back({{"change", gain.words},
                     {"days_saved", gain.days},
                     {"dollars_saved", s.dollars.mean > 0 ? Json(gain.dollars) : Json()},
                     {"goodput", gain.goodput}});
  }
  const IntervalAnswer& i = answer.interval;
  return {{"seed", answer.seed},
          {"runs", s.runs},
          {"unfinished", s.unfinished},
          {"days", spread_json(s.days)},
          {"gpu_hours", spread_json(s.gpu_hours)},
          {"dollars", known_json(s.dollars)},
          {"kwh", known_json(s.kwh)},
          {"tonnes_co2", known_json(s.tonnes_co2)},
          {"tokens", spread_json(s.tokens)},
          {"interruptions", spread_json(s.interruptions)},
          {"goodput", spread_json(s.goodput)},
          {"parts", parts},
          {"failures", failures},
          {"phases", phases_json(answer)},
          {"interval",
           {{"phase", answer.plan.phases[i.phase].name},
            {"taken_s", i.taken.v},
            {"young_s", i.young.v},
            {"daly_s", i.daly.v},
            {"simulated_s", i.simulated.v},
            {"goodput", i.goodput},
            {"goodput_of_simulated", i.best_goodput}}},
          {"spare_nodes_needed", answer.spares},
          {"what_would_help", helps}};
}

}  // namespace lockstep
