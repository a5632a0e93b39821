// free_memory: how much memory this machine, or the container of this process, can still give.
#pragma once

#include <optional>

#include "core/base/units.hpp"

namespace lockstep {

/// What processes can still take before the system ends one of them: what it calls available, or
/// what is left to the control group of this process if that is less. 0: it does not say.
Bytes free_memory();

/// What this process may still map, where a limit is set to that (`ulimit -v`); else nothing.
std::optional<Bytes> free_address_space();

/// Gives all threads one heap where such a limit is set: else the C library maps 64 MiB for that of
/// nearly every thread, used or not, and the limit is reached by what nobody uses. To be called
/// before threads start.
void share_heap_if_limited();

}  // namespace lockstep
