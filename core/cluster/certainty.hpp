// Certainty: between which factors of a simulated time or memory the measured one lies in 8 of 10
// runs. The factors are quantiles over published runs of families that no constant was fitted to;
// scripts/intervals computes them (docs/validation.md).
#pragma once

#include <optional>

#include "core/cluster/cluster.hpp"

namespace lockstep {

inline constexpr double kLikelyPart = 0.8;  // of runs, between the two factors

/// The factors that are exceeded downwards in 1 of 10 runs, and upwards in 1 of 10.
struct LikelyFactors {
  double least = 1, most = 1;
  bool operator==(const LikelyFactors&) const = default;
};

struct Certainty {
  LikelyFactors step_time, memory;
  bool operator==(const Certainty&) const = default;
};

/// What is known of simulations of a cluster and its software. Where no published run had both the
/// software and the card, the limits are the widest of all. Nothing of CPUs and of Lockstep's own
/// kernels, which no published run has.
std::optional<Certainty> certainty_of(const ClusterSpec& cluster);

}  // namespace lockstep
