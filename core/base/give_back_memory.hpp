// give_back_memory: what was freed goes back to the system, where the allocator can be asked for
// it.
#pragma once

namespace lockstep {

/// The allocator keeps small blocks that were freed, beside which large ones, which come from the
/// system, find no place. So who frees much in pieces asks for this before large lists are made.
/// Takes time linear in what is free.
void give_back_memory();

}  // namespace lockstep
