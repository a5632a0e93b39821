#include "core/spec/model.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {

std::int64_t ModelSpec::expert_capacity(std::int64_t tokens) const {
  if (capacity_factor == 0) return tokens;
  constexpr double kRounding = 1e-9;  // so that an even share of 5 is not rounded up to 6
  const double share = capacity_factor * static_cast<double>(tokens) *
                       static_cast<double>(experts_per_token) / static_cast<double>(experts);
  // A token chooses an expert at most once, so an expert never needs more room than there are
  // tokens.
  return static_cast<std::int64_t>(
      std::min(static_cast<double>(tokens), std::max(1.0, std::ceil(share * (1 - kRounding)))));
}

}  // namespace lockstep
