// Causes: where the time of a step goes, as the figures of a report. All are means over the traced
// steps.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/bubbles.hpp"
#include "core/analysis/step_analysis.hpp"

namespace lockstep {

struct RankCauses {
  // As in RankBreakdown: disjoint parts that add up to the step.
  Seconds computation, overlapping, communication, waiting, other;
  IndexArray<BubbleCause, Seconds, kNumBubbleCauses>
      bubbles;  // by BubbleCause; they add up to step - compute
  // As in RankArrivals, per step.
  double last_arrivals = 0;       // collectives to which the rank came last
  Seconds caused_wait, own_wait;  // how long others waited for it, and it for others
  bool operator==(const RankCauses&) const = default;
};

struct Causes {
  IndexArray<BubbleCause, Seconds, kNumBubbleCauses> bubbles;  // by BubbleCause; means over ranks
  std::map<std::string, Seconds> exposed_comm;                 // by op kind; means over ranks
  /// Time on the critical path by op kind, and "waiting" where no op runs on it; adds up to the
  /// step.
  std::map<std::string, Seconds> critical_path;
  double critical_path_crossings = 0;  // how often the path goes from one rank to another
  std::vector<RankCauses> ranks;       // by rank
  bool operator==(const Causes&) const = default;
};

/// `program` is null for a trace that came from elsewhere (see StepGraph). A trace without spans
/// gives zeros. If `kept` is given, what was found out about each step is appended to it, in the
/// order of the steps.
Causes find_causes(const Trace& trace, const Program* program,
                   std::vector<StepAnalysis>* kept = nullptr);

}  // namespace lockstep
