// make_kernel: kernels for tests of their rows.
#pragma once

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::test {

/// A kernel in which all operands are present, have one type, and have formals of their own. It
/// drops nothing: what the dropout of attention's probabilities draws from is absent.
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
  const bool attends =
      kind == KernelKind::AttentionForward || kind == KernelKind::AttentionBackward;
  if (attends) kernel.in.back() = {};
  return kernel;
}

}  // namespace lockstep::test
