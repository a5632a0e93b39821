// Time of attention by implementation.
#pragma once

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Of an attention kernel, without its launch. Requires framework.attention other than Profile.
Seconds attention_time(const Kernel& kernel, const DeviceSpec& device,
                       const FrameworkSpec& framework);

/// Part of the peak that a FlashAttention kernel reaches with heads of 128 and endless sequences,
/// operations of the lower triangle counted: by card generation, from the papers.
double flash_fraction(AttentionKernel implementation, double compute_capability, bool backward);

}  // namespace lockstep
