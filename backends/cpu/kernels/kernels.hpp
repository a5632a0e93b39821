// Kernels of the CPU backend. Every KernelKind has an entry for float32 and one for float64; a
// kernel in bfloat16 or float16 widens its operands to float32 and rounds what it stores.
#pragma once

#include <cstddef>
#include <span>
#include <string_view>

#include "core/base/thread_team.hpp"
#include "core/ir/kernels/kernel.hpp"
#include "core/run/device.hpp"

namespace lockstep::cpu {

/// The instruction set of the kernels in use, which is the best that this machine runs: "x86-64-v4"
/// (AVX-512), "x86-64-v3" (AVX2, FMA) or "baseline".
std::string_view cpu_isa();

/// Whether the kernel's kind and types are implemented here.
bool supports(const Kernel& kernel);

/// Runs `kernel` to the end. `buffers` are the addresses of the function's actual buffers, by
/// formal. Results do not depend on the number of threads of `team`.
void run_kernel(const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context, ThreadTeam& team);

/// The same with the code for one instruction set (backends/cpu/kernels/kernel_table.hpp).
struct KernelTable;
void run_kernel(const KernelTable& table, const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context, ThreadTeam& team);

}  // namespace lockstep::cpu
