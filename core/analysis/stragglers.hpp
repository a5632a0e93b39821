// Stragglers: who comes last to each collective, and how long the others wait for it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/analysis/step_graph.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

/// One collective of one group.
struct Arrival {
  SpanIndex last = -1;  // the member that came last; of several, the one of lowest rank
  int members = 0;      // how many ranks
  SimTime spread{};     // begin of the last member - begin of the first; above 0
  SimTime waited{};     // all members together: sum of (last begin - begin)
  bool operator==(const Arrival&) const = default;
};

struct RankArrivals {
  std::int64_t collectives = 0;  // how many the rank took part in with others
  std::int64_t last = 0;         // to how many it came last while others waited
  SimTime caused{};              // how long others waited for it
  SimTime waited{};              // how long it waited for others
  bool operator==(const RankArrivals&) const = default;
};

struct Stragglers {
  std::vector<Arrival> list;              // longest wait first; only those in which somebody waited
  IndexVector<Rank, RankArrivals> ranks;  // by rank
  SimTime waited{};  // over all ranks; RankArrivals::waited and ::caused each add up to it
};

/// Finds who came last to each collective of a step. A rank that another one stands for counts like
/// that one, since both come at the same time. `list` holds only the groups of ranks with spans of
/// their own. Takes n log n time in the collectives.
Stragglers find_stragglers(const StepGraph& step);
/// The same without the list, in linear time.
Stragglers sum_stragglers(const StepGraph& step);

}  // namespace lockstep
