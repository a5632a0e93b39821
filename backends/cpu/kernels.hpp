// Kernels of the CPU backend: one entry for every KernelKind, float32 and float64.
#pragma once

#include <cstddef>
#include <span>

#include "backends/cpu/thread_team.hpp"
#include "core/ir/kernel.hpp"
#include "core/run/device.hpp"

namespace lockstep::cpu {

/// False: this dtype or kind has no implementation here.
bool supports(const Kernel& kernel);

/// Runs `kernel` to the end. `buffers`: addresses of the function's actual buffers, by formal.
/// Results do not depend on the number of threads of `team`.
void run_kernel(const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context, ThreadTeam& team);

}  // namespace lockstep::cpu
