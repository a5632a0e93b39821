// Collectives: each member's share in moving the data, once all parties of a transfer are known.
#pragma once

#include <span>
#include <vector>

#include "backends/local/fabric.hpp"

namespace lockstep::local {

/// The elements [begin, end) of a buffer.
struct Slice {
  std::int64_t begin = 0, end = 0;
};
/// Copies, unless both addresses are the same, as they are in gathers and scatters in place.
void copy(std::byte* to, const std::byte* from, std::int64_t bytes);

/// The slice that member `position` adds in an all-reduce of `elements` among `members`.
Slice slice_of(std::int64_t elements, DType dtype, std::int64_t members, std::int64_t position);

/// For each element i of the slice, writes sources[0][i] + sources[1][i] + … to all targets. Sums
/// are taken in this order and in the type itself, for 16-bit types in float32 with one rounding. A
/// target may be a source. With `largest`, takes the largest of the values instead. Requires
/// can_sum(dtype).
void add_in_order(DType dtype, const std::vector<const std::byte*>& sources, Slice slice,
                  const std::vector<std::byte*>& targets, bool largest = false);

/// Whether these functions can add values of this type.
bool can_sum(DType dtype);

/// As make_party(), and error Unsupported if the op sums and can_sum(dtype) is false.
Result<Party> party_of(const Program& program, Rank rank, OpId op, std::span<std::byte* const> args,
                       std::span<const std::int64_t> bytes, DType dtype, int size);

/// Moves the data of which member `position` is in charge. What it writes no other member writes,
/// and what it reads no member writes meanwhile. When all members have done their share, the
/// transfer is complete. Error InvalidSpec if more rows come to the member than it has room for.
/// Sums are taken element by element over members 0, 1, …, as in add_in_order(), so that the result
/// depends neither on timing nor on which member adds: an all-reduce equals a reduce-scatter
/// followed by an all-gather, bit for bit. Requires parties that agree, and can_sum(dtype) for the
/// kinds that sum.
Result<void> move_share(const std::vector<Party>& parties, int position);

}  // namespace lockstep::local
