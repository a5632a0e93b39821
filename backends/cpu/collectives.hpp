// Collectives: each member's share of moving the data, once all parties are known.
#pragma once

#include <vector>

#include "backends/cpu/fabric.hpp"

namespace lockstep::cpu {

/// True if sums of this type can be reduced here.
bool can_sum(DType dtype);

/// Does the share of member `position`: what it alone writes, reading what nobody writes meanwhile.
/// When all members have done theirs, the transfer is complete. Sums are taken element by element
/// over members 0, 1, … in the type itself, so the result depends neither on timing nor on which
/// member adds: an all-reduce equals a reduce-scatter and an all-gather bit for bit.
/// Requires agreeing parties; can_sum(dtype) for the kinds that sum.
void move_share(const std::vector<Party>& parties, int position);

}  // namespace lockstep::cpu
