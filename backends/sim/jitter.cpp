#include "backends/sim/jitter.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index_vector.hpp"
#include "core/base/mix.hpp"
#include "core/run/initial_values.hpp"

namespace lockstep::sim {
namespace {

/// The quantile of the distribution for 0 < p < 1, scaled to mean 0 and variance 1.
double quantile(JitterDistribution distribution, double p) {
  switch (distribution) {
    case JitterDistribution::Uniform:
      return std::sqrt(12.0) * (p - 0.5);
    case JitterDistribution::Exponential:
      return -std::log(1 - p) - 1;
    case JitterDistribution::Normal:
      break;
  }
  return normal_quantile(p);
}

}  // namespace

double jitter_factor(const WhatIfSpec& what_if, Rank rank, std::uint32_t op) {
  if (what_if.recorded != nullptr) return (*what_if.recorded)[to_size(rank)][op];
  const auto r = static_cast<std::uint64_t>(rank);
  const std::uint64_t key = mix64(mix64(what_if.jitter_seed) + r * kGoldenGamma);
  const std::uint64_t bits = mix64(key + op * kGoldenGamma) >> 11;
  const double p = (static_cast<double>(bits) + 0.5) * 0x1p-53;
  return std::max(0.0, 1 + what_if.jitter * quantile(what_if.jitter_distribution, p));
}

}  // namespace lockstep::sim
