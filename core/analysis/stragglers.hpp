// Stragglers: who comes last to each collective, and how long the others wait for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"

namespace lockstep {

/// One collective of one group.
struct Arrival {
  SpanIndex last = -1;  // the member that came last: the lowest rank of several
  int members = 0;      // ranks
  SimTime spread{};     // begin of the last member minus begin of the first; above 0
  SimTime waited{};     // by all members together: sum of (last begin - begin)
  bool operator==(const Arrival&) const = default;
};

struct RankArrivals {
  std::int64_t collectives = 0;  // that the rank took part in, with others
  std::int64_t last = 0;         // to which it came last, others waiting
  SimTime caused{};              // what others waited for it
  SimTime waited{};              // what it waited for others
  bool operator==(const RankArrivals&) const = default;
};

struct Stragglers {
  std::vector<Arrival> list;        // longest wait first; without those where nobody waited
  std::vector<RankArrivals> ranks;  // every rank
  SimTime waited{};                 // over all ranks: the sums of RankArrivals::waited and ::caused
};

/// Of ranks that another one stands for, each counts as it does: they come at the same time.
/// `list` holds the groups of ranks that have spans of their own. n log n in the collectives.
Stragglers find_stragglers(const StepGraph& step);

}  // namespace lockstep
