// Attention time: what an attention kernel takes, by the implementation that the framework has.
#pragma once

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// The time of an attention kernel, without its launch. Requires framework.attention other than
/// Profile, for which the curves of the card's profile say the time.
Seconds attention_time(const Kernel& kernel, const DeviceSpec& device,
                       const FrameworkSpec& framework);

/// The part of the peak that a FlashAttention kernel reaches with heads of 128 and endless
/// sequences, if only the operations of the lower triangle are counted. The figures are those of
/// the papers, by card generation.
double flash_fraction(AttentionKernel implementation, double compute_capability, bool backward);

}  // namespace lockstep
