// Fusion: what one launch of two kernels leaves behind against what the two leave.
#pragma once

#include <vector>

#include "tests/integration/kernel_conformance.hpp"

namespace lockstep::test {

/// A product and the GELU, or the gradient of one, behind it, on random operands: what fusing must
/// not change.
class FusedPair {
 public:
  /// c[m,n] = a[m,k] b[n,k]ᵀ + bias, y = gelu(c); backward: dy = a b, dx = dy gelu'(x).
  FusedPair(std::int64_t m, std::int64_t n, std::int64_t k, bool backward, DType dtype);
  /// What is left in c and y (backward: in dx alone), after both kernels or after one launch of the
  /// two; empty if `gpu` does not fuse them.
  std::vector<Numbers> run(cuda::Driver& gpu, bool fused) const;

 private:
  bool backward_;
  DType dtype_;
  Kernel product_, next_;
  std::vector<Numbers> values_;  // a, b, bias or x, c, y
};

}  // namespace lockstep::test
