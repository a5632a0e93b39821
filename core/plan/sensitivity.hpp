// Sensitivity: what the choice of a layout depends on, and by how much something must change before
// another layout wins.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/plan/best_first.hpp"

namespace lockstep {

/// What happens to the best layouts of each family if something changes.
struct Sensitivity {
  std::string change;  // "half the bandwidth between nodes"
  bool fits = true;    // whether the first of before can be so, and fits
  double slower = 0;   // if it does, how much longer its step takes, as a part of it
  std::string winner;  // the fastest that fits then; empty if none does
  bool other = false;  // whether that is another layout than before
  double by = 0;       // by what factor the winner of before is slower than it then
};

/// By what factor the bandwidth between nodes, and that inside them, must fall or rise before
/// another of these layouts is the fastest; nothing if none is from 1/16 to 16.
struct TippingPoint {
  std::string what;  // "bandwidth between nodes"
  double factor = 1;
  std::string winner;
};

struct SensitivityReport {
  std::vector<Sensitivity> changes;
  std::vector<TippingPoint> tipping;
};

/// Estimates the first that was found, before its settings were chosen, the best of the first
/// families and the first of the front that need less memory again on clusters that differ: other
/// bandwidths, less memory; with twice and half the batch, where it can be divided; and, for up to
/// 1,024 ranks, simulates the first with a device that is 10 % slower. The winner is the fastest by
/// estimate. Each of them is simulated in full without a change, and its estimates are taken to be
/// off by as much with it. Requires a result with estimated layouts. Errors: those of the prober.
Result<SensitivityReport> sensitivity(const SpaceResult& result, const Prober& prober);

}  // namespace lockstep
