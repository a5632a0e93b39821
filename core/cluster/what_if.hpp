// WhatIfSpec: counterfactuals about a cluster that the simulator applies, and no other backend.
#pragma once

#include <cstdint>

namespace lockstep {

enum class JitterDistribution { Normal, Uniform, Exponential };

struct WhatIfSpec {
  bool ideal_network = false;     // transfers take no time
  double bandwidth_factor = 1;    // every link's bandwidth times this
  int straggler_rank = -1;        // -1: none
  double straggler_slowdown = 1;  // that rank's kernels take this factor
  // Every call of every rank takes max(0, 1 + jitter z) of its time, z of mean 0 and variance 1.
  double jitter = 0;
  JitterDistribution jitter_distribution = JitterDistribution::Normal;
  std::uint64_t jitter_seed = 0;
  bool operator==(const WhatIfSpec&) const = default;
};

}  // namespace lockstep
