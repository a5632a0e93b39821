// Simulation: a campaign from event to event. Failures of a job have no memory, so that the next
// one is drawn for the job as a whole: the cost goes by failures, not by GPUs or steps.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <vector>

#include "core/campaign/plan.hpp"

namespace lockstep {

/// Where the time of a campaign goes. The parts add up to the whole exactly.
enum class CampaignPart {
  Training,    // steps that are kept, at full speed
  SlowRanks,   // what these took longer because a GPU was slow
  Evaluation,  // between them
  Saving,      // training stands still for checkpoints that count
  LostWork,    // since the last checkpoint that counts before a failure
  Detecting,   // from a failure until it is known
  Waiting,     // for a node in the failed one's place
  Restarting,  // from nodes that are there until training goes on
};
inline constexpr std::size_t kNumCampaignParts = 8;
std::string_view to_string(CampaignPart part);

/// What came of one campaign.
struct CampaignRun {
  std::array<CampaignTime, kNumCampaignParts> parts{};
  std::array<int, kNumCauses> failures{};
  std::vector<CampaignTime> phases;  // of each, all parts
  double tokens = 0;                 // trained and kept
  bool finished = true;              // false: it was given up: it makes no progress
  CampaignTime part(CampaignPart p) const { return parts[to_size(p)]; }
  CampaignTime total() const;
  int interruptions() const;
  /// The part of the time in which steps that are kept ran at full speed.
  double goodput() const;
};

/// Equal seeds give equal failures, at equal times: plans are compared by what they make of the
/// same bad luck.
CampaignRun simulate_campaign(const CampaignPlan& plan, std::uint64_t seed);

}  // namespace lockstep
