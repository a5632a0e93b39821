// Summary: what many campaigns of one plan have in common, and what they cost.
#pragma once

#include <array>
#include <cstdint>

#include "core/campaign/simulation.hpp"

namespace lockstep {

/// What one campaign takes. 0 where the profile of the cluster does not say the price or the power.
struct CampaignCosts {
  double days = 0;
  double gpu_hours = 0;   // of the GPUs that train
  double dollars = 0;     // of these and of spare nodes
  double kwh = 0;         // of the GPUs that train, at their full power, times CampaignPlan::pue
  double tonnes_co2 = 0;  // equivalent
};
CampaignCosts campaign_costs(const CampaignPlan& plan, const CampaignRun& run);

/// Of a figure of all campaigns.
struct Spread {
  double mean = 0, median = 0;
  double low = 0, high = 0;  // nine in ten are above `low`, nine in ten below `high`
};

struct CampaignSummary {
  int runs = 0;
  int unfinished = 0;  // that make no progress worth the name
  Spread days, gpu_hours, dollars, kwh, tonnes_co2, tokens, goodput, interruptions;
  /// The part of a campaign's time. The means add up to 1.
  std::array<Spread, kNumCampaignParts> shares;
  std::array<double, kNumCauses> failures{};  // the mean number, by cause
};
/// Simulates campaigns with the seeds seed, seed + 1, …. Requires runs >= 1.
CampaignSummary summarize_campaigns(const CampaignPlan& plan, std::uint64_t seed, int runs);

}  // namespace lockstep
