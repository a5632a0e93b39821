// What the searched zero-bubble schedules share. A search keeps for each pipeline rank, besides its
// own, `gaps` (idle time since the first F) and `actions`.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/schedule/generators.hpp"

namespace lockstep {

/// Of sums of activations, before they are compared with a limit.
inline constexpr double kActivationRounding = 1e-9;

template <class Searched>
double largest_gaps(const std::vector<Searched>& ranks) {
  double largest = 0;
  for (const Searched& rank : ranks) largest = std::max(largest, rank.gaps);
  return largest;
}

template <class Searched>
std::vector<Actions> take_actions(std::vector<Searched>& ranks) {
  std::vector<Actions> all;
  for (Searched& rank : ranks) all.push_back(std::move(rank.actions));
  return all;
}

}  // namespace lockstep
