// Kernels that may be given to cuDNN.
#pragma once

#include "core/ir/kernels/kernel.hpp"

namespace lockstep::test {

struct AttentionShape {
  std::int64_t batch, seq, heads, kv_heads, head_dim;
  std::int64_t parts = 0;
  std::int64_t whole = 0;
};

inline Operand operand(int formal, DType type) {
  return {static_cast<std::int16_t>(formal), type, 0};
}

inline Kernel attention(KernelKind kind, const AttentionShape& s) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = DType::BF16;
  kernel.dims = {s.batch, s.seq, s.heads, s.kv_heads, s.head_dim, s.parts, 0, s.whole};
  if (kind == KernelKind::AttentionForward) {
    kernel.in = {operand(0, DType::BF16)};
    kernel.out = {operand(1, DType::BF16), operand(2, DType::F32)};
  } else {
    kernel.in = {operand(0, DType::BF16), operand(1, DType::BF16), operand(2, DType::F32),
                 operand(3, DType::BF16)};
    kernel.out = {operand(4, DType::BF16)};
  }
  return kernel;
}

struct ConvolutionShape {
  std::int64_t batch, height, width, in, out, window, stride;
};

/// If `added`, a residual is added to dx, and dw to what it holds.
inline Kernel convolution(KernelKind kind, const ConvolutionShape& s, bool added,
                          DType result = DType::BF16) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.dtype = DType::BF16;
  kernel.dims = {s.batch, s.height, s.width, s.in, s.out, s.window, s.stride};
  kernel.in = {operand(0, DType::BF16), operand(1, DType::BF16)};
  kernel.out = {operand(2, result)};
  if (kind == KernelKind::Conv2dBackwardInput && added) {
    kernel.in.push_back(operand(3, DType::BF16));
  }
  kernel.accumulate = kind == KernelKind::Conv2dBackwardWeight && added;
  return kernel;
}

}  // namespace lockstep::test
