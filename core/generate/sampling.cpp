#include "core/generate/sampling.hpp"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/mix.hpp"

namespace lockstep {

std::int32_t next_token(std::span<const float> logits, const Sampling& rules,
                        std::int64_t position) {
  const auto more_probable = [&](std::int32_t a, std::int32_t b) {
    const float x = logits[to_size(a)], y = logits[to_size(b)];
    return x != y ? x > y : a < b;
  };
  std::vector<std::int32_t> ids(logits.size());
  std::iota(ids.begin(), ids.end(), 0);
  if (rules.temperature <= 0) return *std::min_element(ids.begin(), ids.end(), more_probable);
  const bool some = rules.top_k > 0 && to_size(rules.top_k) < ids.size();
  const auto kept = some ? ids.begin() + rules.top_k : ids.end();
  if (some || rules.top_p < 1) std::partial_sort(ids.begin(), kept, ids.end(), more_probable);
  ids.erase(kept, ids.end());
  std::vector<double> weights;
  const double highest = *std::max_element(logits.begin(), logits.end());
  for (const std::int32_t id : ids) {
    weights.push_back(std::exp((logits[to_size(id)] - highest) / rules.temperature));
  }
  // Cut after the token with which the sum reaches top_p.
  double total = std::accumulate(weights.begin(), weights.end(), 0.0), sum = 0;
  std::size_t count = 0;
  while (count < weights.size() && (count == 0 || sum < rules.top_p * total)) {
    sum += weights[count++];
  }
  // 53 random bits, a number in [0, 1).
  const std::uint64_t bits =
      mix64(mix64(rules.seed) + static_cast<std::uint64_t>(position) * kGoldenGamma);
  double at = static_cast<double>(bits >> 11) * 0x1p-53 * sum;
  for (std::size_t i = 0; i < count; ++i) {
    at -= weights[i];
    if (at < 0) return ids[i];
  }
  return ids[count - 1];
}

}  // namespace lockstep
