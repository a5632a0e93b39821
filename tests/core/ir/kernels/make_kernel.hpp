// Kernels for tests of their rows.
#pragma once

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::test {

/// All operands present, of one type, each in a formal of its own.
inline Kernel make_kernel(KernelKind kind, std::array<std::int64_t, kMaxDims> dims,
                          DType dtype = DType::F32) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = dtype;
  kernel.dims = dims;
  std::int16_t formal = 0;
  for (std::size_t i = 0; i < info(kind).in.size(); ++i) kernel.in.push_back({formal++, dtype, 0});
  for (std::size_t i = 0; i < info(kind).out.size(); ++i)
    kernel.out.push_back({formal++, dtype, 0});
  return kernel;
}

}  // namespace lockstep::test
