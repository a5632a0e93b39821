// Product time: what a matrix product takes, by its shape: tiles, waves, alignment, and splitting
// of the sum.
#pragma once

#include <optional>

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// The time of a Gemm or ScaledGemm without its launch. Returns nullopt where the device does not
/// say how many units it has, or computes the type without matrix units, because the device's
/// efficiency curve then says all.
std::optional<Seconds> product_time(const Kernel& kernel, const DeviceSpec& device,
                                    const FrameworkSpec& framework);

}  // namespace lockstep
