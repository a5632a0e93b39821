#include "backends/cpu/kernels/bf16_kernels.hpp"

#include <array>
#include <cstring>
#include <vector>

#include "backends/cpu/kernels/ragged_parts.hpp"

namespace lockstep::cpu {
namespace {

/// The products of experts, one after the other (core/ir/kernels/experts.cpp).
class ExpertProducts {
 public:
  ExpertProducts(KernelFunction gemm, const Kernel& kernel, const KernelArgs& args)
      : gemm_(gemm), kernel_(kernel), all_(args) {}

  void grouped() const {
    const auto& d = kernel_.dims;
    for (std::int64_t part = 0; part < d[0] * d[1]; ++part) {
      forward(part % d[0], part * d[2], d[2], d[3], d[4], d[5] != 0);
    }
  }
  void grouped_weight() const {
    const auto& d = kernel_.dims;
    for (std::int64_t part = 0; part < d[0] * d[1]; ++part) {
      weight(part % d[0], part * d[2], d[2], d[3], d[4], all_.accumulate || part >= d[0]);
    }
  }
  void ragged() const {
    const auto& d = kernel_.dims;
    for_ragged_parts(counts(3), d[0] * d[1], d[0], d[7], d[2],
                     [&](std::int64_t group, std::int64_t row, std::int64_t rows) {
                       forward(group, row, rows, d[4], d[5], d[6] != 0);
                     });
  }
  /// Groups without rows get zeros.
  void ragged_weight() const {
    const auto& d = kernel_.dims;
    std::vector<bool> added(static_cast<std::size_t>(d[0]), all_.accumulate);
    for_ragged_parts(counts(2), d[0] * d[1], d[0], d[6], d[2],
                     [&](std::int64_t group, std::int64_t row, std::int64_t rows) {
                       const auto g = static_cast<std::size_t>(group);
                       weight(group, row, rows, d[4], d[5], added[g]);
                       added[g] = true;
                     });
    const std::int64_t bytes = d[4] * d[5] * size_of(kernel_.out[0].dtype);
    for (std::size_t g = 0; g < added.size(); ++g) {
      if (added[g]) continue;
      std::memset(all_.out[0] + static_cast<std::int64_t>(g) * bytes, 0,
                  static_cast<std::size_t>(bytes));
    }
  }

 private:
  const std::int32_t* counts(std::size_t i) const {
    return reinterpret_cast<const std::int32_t*>(all_.in[i]);
  }
  std::byte* in(std::size_t i, std::int64_t element) const {
    return all_.in[i] == nullptr ? nullptr : all_.in[i] + element * size_of(kernel_.in[i].dtype);
  }
  std::byte* out(std::int64_t element) const {
    return all_.out[0] + element * size_of(kernel_.out[0].dtype);
  }
  /// The product of `rows` rows from `row` on with the matrix of a group.
  void forward(std::int64_t group, std::int64_t row, std::int64_t rows, std::int64_t n,
               std::int64_t k, bool tb) const {
    const std::array<std::int64_t, 5> dims = {rows, n, k, 0, tb ? 1 : 0};
    run(dims, in(0, row * k), in(1, group * k * n), in(2, group * n), out(row * n),
        all_.accumulate);
  }
  /// What `rows` rows from `row` on give to the gradient of a group's matrix [m, n].
  void weight(std::int64_t group, std::int64_t row, std::int64_t rows, std::int64_t m,
              std::int64_t n, bool add) const {
    const std::array<std::int64_t, 5> dims = {m, n, rows, 1, 0};
    run(dims, in(0, row * m), in(1, row * n), nullptr, out(group * m * n), add);
  }
  void run(const std::array<std::int64_t, 5>& dims, std::byte* a, std::byte* b, std::byte* bias,
           std::byte* c, bool add) const {
    KernelArgs one;
    one.team = all_.team;
    one.dims = dims.data();
    one.in[0] = a;
    one.in[1] = b;
    one.in[2] = bias;
    one.in_bf16[2] = all_.in_bf16[2];
    one.out[0] = c;
    one.out_bf16[0] = all_.out_bf16[0];
    one.accumulate = add;
    gemm_(one);
  }

  KernelFunction gemm_;
  const Kernel& kernel_;
  const KernelArgs& all_;
};

bool is(const Operand& operand, DType type) { return !operand.present() || operand.dtype == type; }

/// Whether Bf16Functions::gemm computes it, or all products of which it consists.
bool is_product(const Kernel& kernel) {
  switch (kernel.kind) {
    case KernelKind::Gemm:
    case KernelKind::GroupedGemm:
    case KernelKind::RaggedGemm:
      break;
    case KernelKind::GroupedGemmWeight:
    case KernelKind::RaggedGemmWeight:
      if (kernel.dims[1] > 1 && kernel.out[0].dtype != DType::F32) return false;
      if (kernel.out.size() > 1 && kernel.out[1].present()) return false;
      break;
    default:
      return false;
  }
  const auto fits = [](const Operand& x) { return is(x, DType::BF16) || is(x, DType::F32); };
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    if (info(kernel.kind).in[i].type != OperandType::Index && !fits(kernel.in[i])) return false;
  }
  return kernel.in[0].dtype == DType::BF16 && kernel.in[1].dtype == DType::BF16 &&
         fits(kernel.out[0]);
}

/// Whether all operands of the kernel's own type are bfloat16, and all statistics float32.
bool is_attention(const Kernel& kernel) {
  const KernelRow& row = info(kernel.kind);
  const auto fits = [](const std::vector<Operand>& operands, const std::vector<OperandRow>& rows) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      if (rows[i].type == OperandType::Index) continue;
      if (!is(operands[i], rows[i].type == OperandType::Own ? DType::BF16 : DType::F32))
        return false;
    }
    return true;
  };
  return fits(kernel.in, row.in) && fits(kernel.out, row.out);
}

}  // namespace

bool run_in_bf16(const Bf16Functions& functions, const Kernel& kernel, const KernelArgs& args) {
  if (functions.gemm == nullptr) return false;
  if (kernel.kind == KernelKind::AttentionForward && is_attention(kernel)) {
    functions.attention_forward(args);
    return true;
  }
  if (kernel.kind == KernelKind::AttentionBackward && is_attention(kernel)) {
    functions.attention_backward(args);
    return true;
  }
  if (!is_product(kernel)) return false;
  const ExpertProducts experts(functions.gemm, kernel, args);
  switch (kernel.kind) {
    case KernelKind::GroupedGemm:
      experts.grouped();
      break;
    case KernelKind::GroupedGemmWeight:
      experts.grouped_weight();
      break;
    case KernelKind::RaggedGemm:
      experts.ragged();
      break;
    case KernelKind::RaggedGemmWeight:
      experts.ragged_weight();
      break;
    default:
      functions.gemm(args);
  }
  return true;
}

}  // namespace lockstep::cpu
