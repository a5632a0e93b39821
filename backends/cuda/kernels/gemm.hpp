// gemm: matrix products as parts of other kernels.
#pragma once

#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {

/// c[m,n] (+)= op(a)[m,k] op(b)[k,n] + bias (to each row) + resid, with matrices stored as gemm's
/// row in core/ir/kernels says. `dtype` is the type of a and b. With a `batch`, the same for each
/// of its products, in one launch where possible; a batch has no residual.
struct GemmShape {
  int64_t m = 0, n = 0, k = 0;
  bool ta = false, tb = false;
  bool tf32 = false;  // Kernel::tf32
};
void multiply(const GemmShape& shape, DType dtype, const void* a, const void* b, Ref bias,
              Ref resid, Ref c, bool accumulate, Queue& queue, const Batch& batch = {});

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
