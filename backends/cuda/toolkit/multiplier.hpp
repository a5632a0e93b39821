// Multiplier: matrix products of one GPU by cuBLASLt, with the bias, GELU and its gradient in the
// epilogue and the residual or the sum so far as C. An algorithm is asked for once per shape and
// kept, so that a shape gives the same bits all through a run.
#pragma once

#include <memory>

#include "backends/cuda/products.hpp"

namespace lockstep::cuda {

struct CublasLt;

class Multiplier final : public Products {
 public:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

  /// On the current GPU. Without cuBLASLt every product is refused.
  Multiplier();
  explicit Multiplier(const CublasLt& calls);
  ~Multiplier() override;
  bool found() const { return state_ != nullptr; }
  /// `workspace`: kWorkspaceBytes, aligned to 256. Error Device: cuBLASLt has failed.
  Result<bool> multiply(const KernelCall& call, const KernelCall* next, const Batch& batch,
                        StreamHandle stream, std::byte* workspace) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cuda
