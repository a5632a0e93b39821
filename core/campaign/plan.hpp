// Plan: what the simulation of a campaign needs to know of each phase: how long a step, a save and
// a restart take, and how often something fails. Made of a scenario and of what is known of a step.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/campaign/failures.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// Integer nanoseconds, so that the parts of a campaign add up exactly. 2^63 ns are 292 years.
using CampaignTime = std::chrono::duration<std::int64_t, std::nano>;
inline constexpr CampaignTime kLongestCampaign{std::int64_t{1} << 62};
CampaignTime to_campaign_time(Seconds t);
Seconds to_seconds(CampaignTime t);

/// What one simulated step says of a scenario.
struct StepFacts {
  Seconds step;
  Bytes checkpoint;    // of all ranks together
  Bytes fullest_rank;  // the largest part of it that one rank has
};
/// Simulates a step of a scenario that validate() has nothing against.
using FactsOracle = std::function<Result<StepFacts>(const Scenario&)>;

/// A phase as the file has it, with its scenario and the facts of its step.
struct PhaseFacts {
  std::string name;
  Scenario scenario;
  double tokens = 0;  // 0: as many as the campaign's days allow
  StepFacts facts;
};

/// A campaign that can be planned again and again with other values of its spec.
struct CampaignFacts {
  CampaignSpec spec;
  std::vector<PhaseFacts> phases;
};
/// Asks the oracle once for every phase. Errors: InvalidSpec if nothing says how much to train, or
/// a phase cannot be laid out so; those of its scenario's file, and of the oracle.
Result<CampaignFacts> campaign_facts(const Scenario& scenario, const FactsOracle& oracle);

struct CampaignPhase {
  std::string name;
  std::int64_t steps = 0;
  double tokens_per_step = 0;
  int gpus = 1, gpus_per_node = 1;
  double dollars_per_gpu_hour = 0, watts_per_gpu = 0;  // 0: unknown
  CampaignTime step{};                                 // at full speed
  CampaignTime slowed{};                               // what slow GPUs add to a step, on average
  CampaignTime evaluation{};    // likewise evaluations, spread over the steps between them
  std::int64_t interval = 1;    // steps from one checkpoint to the next; the last step has one, too
  bool given_interval = false;  // by [checkpoint]; else it is Daly's
  CampaignTime pause{};         // that training stands still for a checkpoint
  CampaignTime late{};          // how much later than that it counts
  CampaignTime restart{};       // from nodes that are there until training goes on
  FailureRates rates;           // in a second
  CampaignTime wall_step() const { return step + slowed + evaluation; }
};

struct CampaignPlan {
  std::vector<CampaignPhase> phases;
  CampaignTime detection{}, swap{}, repair{};
  int spare_nodes = -1;                  // -1: there is always one
  std::optional<CampaignTime> deadline;  // at which the campaign ends
  double pue = 1, carbon_g_per_kwh = 0;
};
CampaignPlan plan_campaign(const CampaignFacts& facts);

/// The mean time from a failure until training goes on, if a spare node is there.
Seconds mean_recovery(const CampaignPlan& plan, const CampaignPhase& phase);
/// The part of a phase's time in which it trains at full speed, by renewal_goodput().
double closed_goodput(const CampaignPlan& plan, const CampaignPhase& phase);

}  // namespace lockstep
