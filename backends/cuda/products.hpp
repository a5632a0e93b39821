// Products: matrix products by a library, where there is one. Kernels ask for them
// (backends/cuda/kernels); backends/cuda/toolkit has cuBLASLt's.
#pragma once

#include <cstdint>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

/// Products of one shape, with elements from each operand of one to that of the next.
struct Batch {
  std::int64_t count = 1;
  std::int64_t a = 0, b = 0, bias = 0, c = 0;
};

struct Products {
  virtual ~Products() = default;
  /// `next`: a kernel to run in the epilogue (Driver::launch_fused), or null. `batch`: without a
  /// residual or `next`. False: there is no algorithm for this Gemm, or for all of that; nothing is
  /// launched.
  virtual Result<bool> multiply(const KernelCall& call, const KernelCall* next, const Batch& batch,
                                StreamHandle stream, std::byte* workspace) = 0;
};

}  // namespace lockstep::cuda
