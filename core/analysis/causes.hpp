// Causes: where the time of a step goes, as the figures of a report. All are means over the traced
// steps.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "core/analysis/bubbles.hpp"
#include "core/analysis/step_analysis.hpp"
#include "core/analysis/step_shares.hpp"
#include "core/base/index_vector.hpp"

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

/// What a rank does, summed over the traced steps.
struct RankTimes {
  SimTime compute{}, exposed_comm{}, idle{}, stage_span{};
};

/// What the analyses of all traced steps find. Times are multiplied by the share of their step.
struct AnalyzedSteps {
  struct Step {
    std::int32_t number = 0;  // Span::step
    SimTime makespan{};
    double share = 1;
  };
  std::vector<Step> steps;             // those of which a span counts
  SimTime makespan{};                  // summed over them
  IndexVector<Rank, RankTimes> ranks;  // by rank
  Causes causes;                       // means
  /// The number of steps by which means divide: at least 1.
  double count() const { return static_cast<double>(std::max<std::size_t>(steps.size(), 1)); }
  Seconds mean(SimTime sum) const { return (1.0 / count()) * to_seconds(sum); }
};

/// `program` is null for a trace that came from elsewhere (see StepGraph). A trace without spans
/// gives zeros. If `kept` is given, what was found out about each step is appended to it, in the
/// order of the steps.
AnalyzedSteps analyze_steps(const Trace& trace, const Program* program, const StepShares& shares,
                            std::vector<StepAnalysis>* kept = nullptr);

}  // namespace lockstep
