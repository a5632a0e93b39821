// Answer: what `lockstep campaign` says of a scenario.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "core/campaign/questions.hpp"

namespace lockstep {

struct CampaignAnswer {
  CampaignFacts facts;
  CampaignPlan plan;
  std::uint64_t seed = 1;  // of the first campaign
  CampaignSummary summary;
  std::vector<double> closed_goodput;  // of each phase, by renewal theory
  IntervalAnswer interval;             // of the longest phase
  int spares = 0;                      // that are enough for it
  std::vector<CampaignGain> gains;     // the best goodput first
};
/// Simulates so many campaigns, with the seeds from `seed` on, and asks what would help. Errors:
/// those of campaign_facts(), and InvalidSpec for a campaign that makes no progress.
Result<CampaignAnswer> answer_campaign(const Scenario& scenario, const FactsOracle& oracle,
                                       std::uint64_t seed, int runs);

/// What `campaign --json` prints. Times are in seconds unless a name says days; a price, power or
/// carbon that is unknown is null.
nlohmann::ordered_json campaign_json(const CampaignAnswer& answer);

}  // namespace lockstep
