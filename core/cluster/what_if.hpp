// WhatIfSpec: changes to a cluster, to ask what would be if. Only the simulator applies them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

namespace lockstep {

enum class JitterDistribution { Normal, Uniform, Exponential };

/// By rank and op: what the time of a call is multiplied by.
using CallFactors = std::vector<std::vector<double>>;

struct WhatIfSpec {
  bool ideal_network = false;     // transfers take no time
  double bandwidth_factor = 1;    // multiplies the bandwidth of every link
  int straggler_rank = -1;        // -1: none
  double straggler_slowdown = 1;  // that rank's kernels take this many times as long
  // Every call of every rank takes max(0, 1 + jitter z) times as long, where z is random with mean
  // 0 and variance 1.
  double jitter = 0;
  JitterDistribution jitter_distribution = JitterDistribution::Normal;
  std::uint64_t jitter_seed = 0;
  // How calls varied where they were measured, instead of `jitter`; null: not known. It has no key.
  std::shared_ptr<const CallFactors> recorded = nullptr;

  /// Whether calls that do the same work may take different times.
  bool varies() const { return jitter > 0 || recorded != nullptr; }
  bool operator==(const WhatIfSpec&) const = default;
};

}  // namespace lockstep
