// free_memory: how much memory this machine, or the container of this process, can still give.
#pragma once

#include "core/base/units.hpp"

namespace lockstep {

/// What processes can still take before the system ends one of them: what it calls available, or
/// what is left to the control group of this process if that is less. 0: it does not say.
Bytes free_memory();

}  // namespace lockstep
