// The part of check_memory() that asks who uses which bytes of an arena.
#pragma once

#include "core/ir/verify/happens_before.hpp"
#include "core/ir/verify/internal.hpp"
#include "core/ir/verify/repeats.hpp"

namespace lockstep::verification {

/// Checks that buffers are used within their lifetimes, that those which overlap in an arena are
/// never alive together, and that who uses bytes of an arena waits for those who used them in
/// another buffer before. `order` knows all ops.
void check_arena(const Program& program, RoleId role, const Ranges& ranges, const Repeats& repeats,
                 const HappensBefore& order, Faults& faults);

}  // namespace lockstep::verification
