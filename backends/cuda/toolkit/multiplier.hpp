// Multiplier: matrix products of one GPU by cuBLASLt. The bias, GELU and its gradient are computed
// in the epilogue; the residual or the sum so far is cuBLASLt's C. An algorithm is asked for once
// per shape and kept, so that a shape gives the same bits all through a run.
#pragma once

#include <memory>

#include "backends/cuda/products.hpp"

namespace lockstep::cuda {

struct CublasLt;

class Multiplier final : public Products {
 public:
  static constexpr std::int64_t kWorkspaceBytes = std::int64_t{32} << 20;

  /// Opens cuBLASLt for the current GPU. If it is not found, every product is refused.
  Multiplier();
  explicit Multiplier(const CublasLt& calls);
  ~Multiplier() override;
  bool found() const { return state_ != nullptr; }
  /// `workspace` has kWorkspaceBytes and is aligned to 256. Error Device if cuBLASLt fails.
  Result<bool> multiply(const KernelCall& call, const KernelCall* next, const Batch& batch,
                        StreamHandle stream, std::byte* workspace) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace lockstep::cuda
