#include "backends/cuda/kernels/registry.hpp"

namespace lockstep::cuda::LOCKSTEP_TARGET {
namespace {

bool is_float(DType t) { return t == DType::F32 || t == DType::F64 || t == DType::BF16; }

bool fit(const Kernel& kernel, const std::vector<Operand>& operands, std::string_view types) {
  for (std::size_t i = 0; i < operands.size(); ++i) {
    if (!operands[i].present()) continue;
    const char type = i < types.size() ? types[i] : '?';
    const DType dtype = operands[i].dtype;
    const bool fits = type == 'm'   ? dtype == kernel.dtype
                      : type == 'a' ? dtype == sum_type(kernel.dtype)
                      : type == 'i' ? dtype == DType::I32
                      : type == 's' ? is_float(dtype)
                                    : false;
    if (!fits) return false;
  }
  return true;
}

}  // namespace

Registry::Registry() {
  add_elementwise(*this);
  add_norms(*this);
  add_column_sum(*this);
  add_embedding(*this);
  add_cross_entropy(*this);
  add_reductions(*this);
  add_optimizers(*this);
  add_gemm(*this);
  add_attention(*this);
  add_convolution(*this);
  add_batch_norm(*this);
  add_pooling(*this);
  add_experts(*this);
}

bool Registry::supports(const Kernel& kernel) const {
  const KernelRow& row = (*this)[kernel.kind];
  return row.launch != nullptr && is_float(kernel.dtype) && fit(kernel, kernel.in, row.in) &&
         fit(kernel, kernel.out, row.out) && (row.accepts == nullptr || row.accepts(kernel));
}

std::int64_t Registry::scratch_bytes(const Kernel& kernel) const {
  const KernelRow& row = (*this)[kernel.kind];
  return row.scratch_bytes == nullptr ? 0 : row.scratch_bytes(kernel);
}

const Registry& registry() {
  static const Registry one;
  return one;
}

}  // namespace lockstep::cuda::LOCKSTEP_TARGET
