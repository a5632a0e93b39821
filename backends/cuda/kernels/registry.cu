#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
Registry::Registry() {
  add_elementwise(*this);
  add_norms(*this);
  add_column_sum(*this);
  add_embedding(*this);
  add_cross_entropy(*this);
  add_reductions(*this);
  add_optimizers(*this);
  add_factors(*this);
  add_gemm(*this);
  add_attention(*this);
  add_convolution(*this);
  add_batch_norm(*this);
  add_pooling(*this);
  add_experts(*this);
  add_latent(*this);
  add_float8(*this);
  add_ragged(*this);
  add_ragged_float8(*this);
  add_compression(*this);
}

bool Registry::supports(const Kernel& kernel) const {
  const Launcher& row = (*this)[kernel.kind];
  const DType own = kernel.dtype;
  const bool real = own != DType::I32 && own != DType::U8;
  return row.launch != nullptr && real && types_fit(kernel) &&
         (row.accepts == nullptr || row.accepts(kernel));
}

std::int64_t Registry::scratch_bytes(const Kernel& kernel) const {
  const Launcher& row = (*this)[kernel.kind];
  return row.scratch_bytes == nullptr ? 0 : row.scratch_bytes(kernel);
}

const Registry& registry() {
  static const Registry one;
  return one;
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
