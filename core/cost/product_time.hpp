// Time of matrix products by shape: tiles, waves, alignment, splitting of the sum.
#pragma once

#include <optional>

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Of a Gemm, without its launch; none where the device does not say how many units it has, or
/// computes the type without matrix units: its curve then says all.
std::optional<Seconds> product_time(const Kernel& kernel, const DeviceSpec& device,
                                    const FrameworkSpec& framework);

}  // namespace lockstep
