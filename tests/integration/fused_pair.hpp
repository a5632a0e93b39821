// FusedPair: compares what one launch of two kernels leaves in memory with what two launches leave.
#pragma once

#include <vector>

#include "tests/integration/kernel_conformance.hpp"

namespace lockstep::test {

/// A product and the GELU, or the gradient of GELU, that follows it, on random operands.
class FusedPair {
 public:
  /// c[m,n] = a[m,k] b[n,k]ᵀ + bias, y = gelu(c); backward: dy = a b, dx = dy gelu'(x).
  FusedPair(std::int64_t m, std::int64_t n, std::int64_t k, bool backward, DType dtype);
  /// What c and y (backward: dx alone) hold after two launches, or after one launch if `fused`;
  /// empty if `gpu` does not fuse the two.
  std::vector<Numbers> run(cuda::Driver& gpu, bool fused) const;

 private:
  bool backward_;
  DType dtype_;
  Kernel product_, next_;
  std::vector<Numbers> values_;  // a, b, bias or x, c, y
};

}  // namespace lockstep::test
