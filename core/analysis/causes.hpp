// Causes: where the time of a step goes, in the figures of a report. Means over the traced steps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/bubbles.hpp"

namespace lockstep {

struct RankCauses {
  // RankBreakdown: disjoint, add up to the step.
  Seconds computation, overlapping, communication, waiting, other;
  std::array<Seconds, kNumBubbleCauses> bubbles;  // by BubbleCause: step - compute
  // RankArrivals, per step.
  double last_arrivals = 0;       // collectives to which the rank came last
  Seconds caused_wait, own_wait;  // what others waited for it, what it waited for others
  bool operator==(const RankCauses&) const = default;
};

struct Causes {
  std::array<Seconds, kNumBubbleCauses> bubbles;  // by BubbleCause: mean over ranks
  std::map<std::string, Seconds> exposed_comm;    // by op kind: mean over ranks
  std::map<std::string, Seconds> critical_path;   // by op kind, "waiting" for holes: adds up to the
                                                  // step
  double critical_path_crossings = 0;  // how often the path goes from one rank to another
  std::vector<RankCauses> ranks;       // every rank
  bool operator==(const Causes&) const = default;
};

/// `program`: null for a trace from elsewhere (StepGraph). Without spans: zeros.
Causes find_causes(const Trace& trace, const Program* program);

}  // namespace lockstep
