// What the searched zero-bubble schedules share. A search keeps a struct for each pipeline rank,
// which has `gaps` (idle time since the first F) and `actions` among its members.
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "core/schedule/generators.hpp"

namespace lockstep {

/// Tolerance for rounding errors of sums of activations that are compared with a limit.
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
