// Sizes and arithmetic of the kernels of vision models: convolution, batch norm, ReLU, pooling.
// core/ir/kernels/kernel.cpp asks these for every kind that is not its own.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

/// Elements of an operand as stored, whether present or not; products saturate.
std::int64_t vision_input_extent(const Kernel& kernel, std::size_t i);
std::int64_t vision_output_extent(const Kernel& kernel, std::size_t i);
/// As in work(): a convolution is two flops per multiply-add, padding counted as in every published
/// figure (He et al. 2015: 2 · output positions · kernel² · in · out).
double vision_flops(const Kernel& kernel);

}  // namespace lockstep
