// Matrix products as parts of other kernels.
#pragma once

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

/// c[m,n] (+)= op(a)[m,k] op(b)[k,n] + bias (each row) + resid, stored as KernelKind::Gemm says;
/// `dtype`: of a and b.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool ta = false, tb = false;
};
void multiply(const GemmShape& shape, DType dtype, const void* a, const void* b, Ref bias,
              Ref resid, Ref c, bool accumulate, Queue& queue);

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
