// Snapshot blocks: the single blocks of a memory snapshot. Internal to core/trace/kineto.
#pragma once

#include <functional>

#include "core/trace/allocation.hpp"
#include "core/trace/pickle.hpp"

namespace lockstep::kineto {

/// Adds the blocks of one device to `all`, as those of `rank`. `time_of(i)` is the time of the
/// i-th event of `history`, which never falls. A block that was there before the history begins at
/// time 0, and one that is still there at its end ends there.
void add_blocks(Allocations& all, Rank rank, const Pickle& pickle, int device, Pickle::Id history,
                const std::function<SimTime(std::size_t)>& time_of);

}  // namespace lockstep::kineto
