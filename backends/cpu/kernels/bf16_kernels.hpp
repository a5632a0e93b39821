// Kernels of bfloat16 on a machine that has instructions for them, so that their operands need not
// be widened: products of matrices and of experts, and attention.
#pragma once

#include "backends/cpu/kernels/kernel_table.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cpu {

/// Runs the kernel if it is one of `functions`, or consists of such; false if it is not. Sums that
/// go on over several products are kept in float32, and gradients of biases are left to others.
bool run_in_bf16(const Bf16Functions& functions, const Kernel& kernel, const KernelArgs& args);

}  // namespace lockstep::cpu
