// Sizes and arithmetic of the kernels of mixtures of experts: products by expert, routing,
// combination. core/ir/kernels/kernel.cpp asks these for the kinds that is_experts() names.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

bool is_experts(KernelKind kind);

/// Elements of an operand as stored, whether present or not; products saturate.
std::int64_t experts_input_extent(const Kernel& kernel, std::size_t i);
std::int64_t experts_output_extent(const Kernel& kernel, std::size_t i);
/// As in work(): a product is two flops per multiply-add, empty places of the capacity counted.
double experts_flops(const Kernel& kernel);

}  // namespace lockstep
