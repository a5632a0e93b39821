// Multiplier: matrix products of one GPU by cuBLASLt, with the bias in the epilogue and the
// residual or the sum so far as C. An algorithm is asked for once per shape and kept, so that a
// shape gives the same bits all through a run.
#pragma once

#include <cuda_runtime.h>

#include <memory>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

class Multiplier {
 public:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

  /// Without cuBLASLt every product is refused.
  Multiplier();
  ~Multiplier();
  bool found() const { return state_ != nullptr; }
  /// False: there is no algorithm for this shape or these types; nothing is launched.
  Result<bool> multiply(const KernelCall& call, cudaStream_t stream);

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cuda
