#include "core/data/masked_tokens.hpp"

#include <algorithm>
#include <utility>
#include <vector>

#include "core/base/documents.hpp"
#include "core/base/mix.hpp"

namespace lockstep {
namespace {

constexpr std::uint64_t kMasking =
    0x6d61736b696e6721U;  // tells these numbers from others of a seed

/// What stands in the place of `token`, given random bits.
std::int32_t hidden(const Samples& samples, std::int32_t token, std::uint64_t bits) {
  const std::uint64_t of_ten = bits % 10;
  if (of_ten < 8) return static_cast<std::int32_t>(samples.mask_token);
  if (of_ten == 9) return token;
  const auto vocabulary = static_cast<std::uint64_t>(samples.classes);
  const auto drawn = static_cast<std::int64_t>(mix64(bits) % vocabulary);
  return static_cast<std::int32_t>(drawn == samples.document_end ? (drawn + 1) % samples.classes
                                                                 : drawn);
}

}  // namespace

void mask_tokens(const Samples& samples, std::uint64_t seed, std::int64_t sample,
                 std::span<std::int32_t> tokens, std::span<std::int32_t> targets) {
  const std::uint64_t key = mix64(mix64(seed ^ kMasking) + static_cast<std::uint64_t>(sample));
  std::vector<std::pair<std::uint64_t, std::size_t>> draws;  // bits, and the position
  draws.reserve(tokens.size());
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    if (tokens[i] != samples.document_end) draws.emplace_back(mix64(key + i), i);
  }
  const auto chosen = std::min(samples.masked, static_cast<std::int64_t>(draws.size()));
  std::nth_element(draws.begin(), draws.begin() + chosen, draws.end());
  draws.resize(static_cast<std::size_t>(chosen));
  std::fill(targets.begin(), targets.end(), kIgnoredTarget);
  for (const auto& [bits, i] : draws) {
    targets[i] = tokens[i];
    tokens[i] = hidden(samples, tokens[i], mix64(bits));
  }
}

}  // namespace lockstep
