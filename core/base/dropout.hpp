// Dropout (Srivastava et al. 2014): which elements of an activation are dropped in training. The
// random bits of an element are a function of the seed, the sample, the token's position in it, the
// layer and the column, so that the same elements are dropped however the ranks divide the work,
// and again when a layer is computed a second time. No mask is stored. Of attention's
// probabilities, the token is that of the query, the column is the position of the key in the
// sequence, and every head draws its own.
#pragma once

#include <cstdint>

#include "core/base/mix.hpp"

namespace lockstep {

/// The key of a token's row: all that its random bits depend on beside layer, place and column. It
/// is not negative. `sample` counts the samples of the whole training, so that a sample that is
/// read again has another key.
constexpr std::int32_t dropout_key(std::uint64_t seed, std::int64_t sample, std::int64_t token) {
  constexpr std::uint64_t kDropout = 0x64726f706f757421U;  // tells the keys from other uses of seed
  const std::uint64_t of_sample =
      mix64(mix64(seed ^ kDropout) + static_cast<std::uint64_t>(sample));
  return static_cast<std::int32_t>(mix64(of_sample + static_cast<std::uint64_t>(token)) >> 33);
}
/// The key of a row of which nothing is dropped, as in validation.
inline constexpr std::int32_t kNothingDropped = -1;

/// The random bits of a row in one layer and at one place of it (0, 1, …).
struct DropoutRow {
  std::uint32_t begin, mask;
  LOCKSTEP_ANYWHERE constexpr DropoutRow(std::int32_t key, int layer, int place)
      : DropoutRow(mix64(static_cast<std::uint64_t>(key) |
                         static_cast<std::uint64_t>(static_cast<std::uint32_t>(layer)) << 31 |
                         static_cast<std::uint64_t>(place) << 60)) {}
  /// Those of a query's probabilities in a head, which is counted over all ranks: its columns are
  /// positions of keys. Places of Dropout kernels are below kProbabilities.
  LOCKSTEP_ANYWHERE static constexpr DropoutRow of_query(std::int32_t key, int layer, int head) {
    const DropoutRow row(key, layer, kProbabilities);
    return DropoutRow(mix64((static_cast<std::uint64_t>(row.mask) << 32 | row.begin) +
                            static_cast<std::uint64_t>(head)));
  }
  /// 32 random bits for a column: two rounds of a 32-bit hash (Wellons 2018, hash-prospector), of
  /// which vectors of 32-bit integers compute many at once.
  LOCKSTEP_ANYWHERE constexpr std::uint32_t bits(std::uint32_t column) const {
    std::uint32_t x = begin + column * kColumn;
    x = (x ^ (x >> 16)) * kFirstRound ^ mask;
    x = (x ^ (x >> 15)) * kSecondRound;
    return x ^ (x >> 16);
  }
  static constexpr std::uint32_t kColumn = 0x9e3779b9u;
  static constexpr std::uint32_t kFirstRound = 0x7feb352du, kSecondRound = 0x846ca68bu;

 private:
  static constexpr int kProbabilities = 8;
  LOCKSTEP_ANYWHERE constexpr explicit DropoutRow(std::uint64_t bits)
      : begin(static_cast<std::uint32_t>(bits)), mask(static_cast<std::uint32_t>(bits >> 32)) {}
};

/// An element is dropped if its bits are less than this: a share of `share` of all, 0 <= share < 1.
LOCKSTEP_ANYWHERE constexpr std::uint32_t dropped_below(double share) {
  return static_cast<std::uint32_t>(share * 4294967296.0);
}

}  // namespace lockstep
