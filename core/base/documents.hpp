// Documents that lie one behind the other in a sequence of tokens ("packed"): where each begins,
// and how many scores attention has if it does not look across their boundaries.
#pragma once

#include <cstdint>
#include <limits>
#include <span>

namespace lockstep {

/// The target of a token that gives no loss. It stays the same where ids are counted from the first
/// of a rank's part of the vocabulary.
inline constexpr std::int32_t kIgnoredTarget = std::numeric_limits<std::int32_t>::min();

/// Writes, for each token, the position at which its document begins. A document ends with the
/// token `end`; the sequence begins with one. Both spans are equally long.
void document_starts(std::span<const std::int32_t> tokens, std::int32_t end,
                     std::span<std::int32_t> starts);

/// Writes, for each token, the position behind the last of its document.
void document_ends(std::span<const std::int32_t> tokens, std::int32_t end,
                   std::span<std::int32_t> ends);

/// How many pairs of a query and an earlier key, or the same, lie in one document, on average over
/// sequences in which every token ends a document with probability 1 / `mean`. Queries and keys are
/// two stretches of `count` tokens, of which that of the queries begins `ahead` tokens behind that
/// of the keys: at the same token (0), or count or more before or behind it. With q = 1 - 1 / mean,
/// this is the sum of q^(distance) over all pairs. Requires mean >= 1.
double expected_scores(double mean, std::int64_t count, std::int64_t ahead = 0);
/// The same, of a query and any key, earlier or later.
double expected_whole_scores(double mean, std::int64_t count, std::int64_t ahead = 0);

/// The same, of a query and the `window` tokens of which it is the last: pairs of a distance of 0
/// to window - 1. Requires window >= 1.
double window_scores(std::int64_t window, std::int64_t count, std::int64_t ahead = 0);

}  // namespace lockstep
