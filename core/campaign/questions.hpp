// Questions: the interval between checkpoints that the simulation finds best, how many spares are
// enough, and what would make a campaign shorter.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "core/campaign/summary.hpp"

namespace lockstep {

/// The interval of a phase, beside what theory and the simulation say of it.
struct IntervalAnswer {
  std::size_t phase = 0;
  Seconds taken;                   // as the plan has it; useful time, as all of these
  Seconds young, daly, simulated;  // that lose least; 0 if nothing fails
  double goodput = 0;              // with the plan's, by renewal_goodput()
  double best_goodput = 0;         // with the simulated one, likewise
};
/// The simulation's own answer: the mean lengths of campaigns of this phase alone, whose intervals
/// go from a third to three times Daly's, and the least of a parabola through them.
IntervalAnswer interval_answer(const CampaignPlan& plan, std::size_t phase, std::uint64_t seed,
                               int runs);

/// The phase that takes longest at full speed.
std::size_t longest_phase(const CampaignPlan& plan);

/// A change, and what the mean campaign gains by it.
struct CampaignGain {
  std::string words;             // "detect failures within a minute"
  double days = 0, dollars = 0;  // fewer, if positive
  double goodput = 0;            // of the changed campaign, on average
};
/// Simulates each change that applies, with the same seeds, and with intervals that are best for
/// it; the best goodput first.
std::vector<CampaignGain> campaign_gains(const CampaignFacts& facts, std::uint64_t seed, int runs);

/// Spares of which there are too few for one moment in a hundred at most, in the longest phase.
int spares_needed(const CampaignPlan& plan);

}  // namespace lockstep
