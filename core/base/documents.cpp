#include "core/base/documents.hpp"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>

namespace lockstep {

void document_starts(std::span<const std::int32_t> tokens, std::int32_t end,
                     std::span<std::int32_t> starts) {
  std::int32_t start = 0;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    starts[i] = start;
    if (tokens[i] == end) start = static_cast<std::int32_t>(i) + 1;
  }
}

void document_ends(std::span<const std::int32_t> tokens, std::int32_t end,
                   std::span<std::int32_t> ends) {
  auto behind = static_cast<std::int32_t>(tokens.size());
  for (std::size_t i = tokens.size(); i-- > 0;) {
    if (tokens[i] == end) behind = static_cast<std::int32_t>(i) + 1;
    ends[i] = behind;
  }
}

double expected_scores(double mean, std::int64_t count, std::int64_t ahead) {
  if (ahead < 0) return 0;
  const auto n = static_cast<double>(count);
  // Longer documents cross the whole stretch, and the difference below would lose its digits.
  const double length = std::min(mean, 1e6 * n), stay = 1 - 1 / length;
  // 1 + q + … + q^(n - 1)
  const double row = -std::expm1(n * std::log1p(-1 / length)) * length;
  if (ahead == 0) return length * (n - stay * row);  // the sum over all rows of the triangle
  return std::pow(stay, static_cast<double>(ahead - count + 1)) * row * row;
}

double expected_whole_scores(double mean, std::int64_t count, std::int64_t ahead) {
  if (ahead != 0) return expected_scores(mean, count, std::abs(ahead));
  return 2 * expected_scores(mean, count) - static_cast<double>(count);  // the diagonal once
}

double window_scores(std::int64_t window, std::int64_t count, std::int64_t ahead) {
  // count - |distance - ahead| pairs have that distance.
  const std::int64_t first = std::max<std::int64_t>(0, ahead - count + 1);
  const std::int64_t last = std::min(window - 1, ahead + count - 1);
  const auto sum = [](std::int64_t from, std::int64_t to, double at_from, double at_to) {
    return from > to ? 0 : static_cast<double>(to - from + 1) * (at_from + at_to) / 2;
  };
  const auto pairs = [&](std::int64_t distance) {
    return static_cast<double>(count - std::abs(distance - ahead));
  };
  const std::int64_t middle = std::min(last, ahead), second = std::max(first, ahead + 1);
  return sum(first, middle, pairs(first), pairs(middle)) +
         sum(second, last, pairs(second), pairs(last));
}

}  // namespace lockstep
