// Kernels of the reference backend: every KernelKind by its definition in core/ir/kernels, computed
// in float64. The kernels of all other backends are compared with them.
#pragma once

#include <cstddef>
#include <span>

#include "core/ir/kernels/kernel.hpp"
#include "core/run/device.hpp"

namespace lockstep::reference {

/// Whether all operands have types that this backend computes with.
bool supports(const Kernel& kernel);

/// Runs `kernel` to the end on the calling thread. Operands of every type are widened to float64,
/// arithmetic is in float64, and results are rounded once, to the types of the outputs. `buffers`
/// are the addresses of the function's actual buffers, by formal. Requires supports(kernel).
void run_kernel(const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context);

}  // namespace lockstep::reference
