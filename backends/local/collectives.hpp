// Collectives: each member's share of moving the data, once all parties are known.
#pragma once

#include <span>
#include <vector>

#include "backends/local/fabric.hpp"

namespace lockstep::local {

/// Elements [begin, end).
struct Slice {
  std::int64_t begin = 0, end = 0;
};
/// Copies, unless both are the same memory, as in gathers and scatters in place.
void copy(std::byte* to, const std::byte* from, std::int64_t bytes);

/// What member `position` adds of an all-reduce of `elements` among `members`.
Slice slice_of(std::int64_t elements, DType dtype, std::int64_t members, std::int64_t position);

/// targets[…][i] = sources[0][i] + sources[1][i] + …, in this order and in the type itself
/// (bfloat16: in float32, rounded once), for the elements of the slice; targets may be sources.
/// Requires can_sum(dtype).
void add_in_order(DType dtype, const std::vector<const std::byte*>& sources, Slice slice,
                  const std::vector<std::byte*>& targets);

/// True if sums of this type can be reduced here.
bool can_sum(DType dtype);

/// make_party, or Unsupported for a sum of a type that is not computed with here.
Result<Party> party_of(Rank rank, OpId id, const Op& op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype, int size);

/// Does the share of member `position`: what it alone writes, reading what nobody writes meanwhile.
/// When all members have done theirs, the transfer is complete. Sums are taken element by element
/// over members 0, 1, … in the type itself, so the result depends neither on timing nor on which
/// member adds: an all-reduce equals a reduce-scatter and an all-gather bit for bit.
/// Requires agreeing parties; can_sum(dtype) for the kinds that sum.
void move_share(const std::vector<Party>& parties, int position);

}  // namespace lockstep::local
