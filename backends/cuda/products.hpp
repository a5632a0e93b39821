// Products: matrix products by a library, where there is one. The kernels of backends/cuda/kernels
// call it; backends/cuda/toolkit implements it by cuBLASLt.
#pragma once

#include <cstdint>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

/// A batch of `count` products of one shape. The other members say how many elements lie between an
/// operand of one product and that of the next.
struct Batch {
  std::int64_t count = 1;
  std::int64_t a = 0, b = 0, bias = 0, c = 0;
};

struct Products {
  virtual ~Products() = default;
  /// Launches a product. `next` is a kernel to run in the epilogue (see Driver::launch_fused()), or
  /// null. A batch of several products may have neither a residual nor a `next`. Returns false, and
  /// launches nothing, if there is no algorithm for all of that.
  virtual Result<bool> multiply(const KernelCall& call, const KernelCall* next, const Batch& batch,
                                StreamHandle stream, std::byte* workspace) = 0;
};

}  // namespace lockstep::cuda
