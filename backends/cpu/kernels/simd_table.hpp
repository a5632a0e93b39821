// All kernels of one instruction set as a KernelTable. Included by isa_*.cpp only.
#pragma once

#include "backends/cpu/kernels/simd_attention_backward.hpp"
#include "backends/cpu/kernels/simd_attention_forward.hpp"
#include "backends/cpu/kernels/simd_batch_norm.hpp"
#include "backends/cpu/kernels/simd_compression.hpp"
#include "backends/cpu/kernels/simd_convolution.hpp"
#include "backends/cpu/kernels/simd_elementwise.hpp"
#include "backends/cpu/kernels/simd_experts.hpp"
#include "backends/cpu/kernels/simd_factors.hpp"
#include "backends/cpu/kernels/simd_float8.hpp"
#include "backends/cpu/kernels/simd_gemm.hpp"
#include "backends/cpu/kernels/simd_latent.hpp"
#include "backends/cpu/kernels/simd_norms.hpp"
#include "backends/cpu/kernels/simd_pooling.hpp"
#include "backends/cpu/kernels/simd_ragged_float8.hpp"
#include "backends/cpu/kernels/simd_reductions.hpp"
#include "backends/cpu/kernels/simd_tokens.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep::cpu {
namespace {

template <class T>
void fill_column(KernelFunction* column) {
  const auto at = [&](KernelKind kind) -> KernelFunction& {
    return column[static_cast<int>(kind)];
  };
  at(KernelKind::Gemm) = run_gemm<T>;
  at(KernelKind::Quantize) = run_quantize<T>;
  at(KernelKind::ScaledGemm) = run_scaled_gemm<T>;
  at(KernelKind::ToCodes) = run_to_codes<T>;
  at(KernelKind::FromCodes) = run_from_codes<T>;
  at(KernelKind::Orthonormalize) = run_orthonormalize<T>;
  at(KernelKind::ColumnSum) = run_column_sum<T>;
  at(KernelKind::AttentionForward) = run_attention_forward<T>;
  at(KernelKind::AttentionBackward) = run_attention_backward<T>;
  at(KernelKind::LayerNormForward) = run_layer_norm_forward<T>;
  at(KernelKind::LayerNormBackwardInput) = run_layer_norm_backward_input<T>;
  at(KernelKind::LayerNormBackwardWeight) = run_layer_norm_backward_weight<T>;
  at(KernelKind::HeadNormForward) = run_head_norm_forward<T>;
  at(KernelKind::HeadNormBackwardInput) = run_head_norm_backward_input<T>;
  at(KernelKind::HeadNormBackwardWeight) = run_head_norm_backward_weight<T>;
  at(KernelKind::RmsNormForward) = run_rms_norm_forward<T>;
  at(KernelKind::RmsNormBackwardInput) = run_rms_norm_backward_input<T>;
  at(KernelKind::RmsNormBackwardWeight) = run_rms_norm_backward_weight<T>;
  at(KernelKind::GeluForward) = run_function_forward<T, Gelu<T>>;
  at(KernelKind::GeluBackward) = run_function_backward<T, Gelu<T>>;
  at(KernelKind::SquaredReluForward) = run_function_forward<T, SquaredRelu<T>>;
  at(KernelKind::SquaredReluBackward) = run_function_backward<T, SquaredRelu<T>>;
  at(KernelKind::SoftcapForward) = run_softcap_forward<T>;
  at(KernelKind::SoftcapBackward) = run_softcap_backward<T>;
  at(KernelKind::SwigluForward) = run_gated_forward<T, Silu<T>>;
  at(KernelKind::SwigluBackward) = run_gated_backward<T, Silu<T>>;
  at(KernelKind::GegluForward) = run_gated_forward<T, Gelu<T>>;
  at(KernelKind::GegluBackward) = run_gated_backward<T, Gelu<T>>;
  at(KernelKind::Rope) = run_rope<T>;
  at(KernelKind::EmbeddingForward) = run_embedding_forward<T>;
  at(KernelKind::EmbeddingBackward) = run_embedding_backward<T>;
  at(KernelKind::CrossEntropy) = run_cross_entropy<T>;
  at(KernelKind::CrossEntropyStats) = run_cross_entropy_stats<T>;
  at(KernelKind::CrossEntropyParallel) = run_cross_entropy_parallel<T>;
  at(KernelKind::Add) = run_add<T>;
  at(KernelKind::Dropout) = run_dropout<T>;
  at(KernelKind::Scale) = run_scale<T>;
  at(KernelKind::Regroup) = run_regroup<T>;
  at(KernelKind::JoinLatent) = run_join_latent<T>;
  at(KernelKind::PartLatent) = run_part_latent<T>;
  at(KernelKind::JoinColumns) = run_join_columns<T>;
  at(KernelKind::PartColumns) = run_part_columns<T>;
  at(KernelKind::Fill) = run_fill<T>;
  at(KernelKind::Sum) = run_sum<T>;
  at(KernelKind::NormSquared) = run_norm_squared<T>;
  at(KernelKind::ClipCoefficient) = run_clip_coefficient<T>;
  at(KernelKind::AdamW) = run_adamw<T, false>;
  at(KernelKind::Adam) = run_adamw<T, true>;
  at(KernelKind::AdamW8bit) = run_adamw<T, false>;  // of states that WidenedOperands has read
  at(KernelKind::Lion) = run_lion<T>;
  at(KernelKind::Momentum) = run_momentum<T>;
  at(KernelKind::Normalize) = run_normalize<T>;
  at(KernelKind::Muon) = run_muon<T>;
  at(KernelKind::ReplicaTerm) = run_replica_term<T>;
  at(KernelKind::OuterSgd) = run_outer_sgd<T>;
  at(KernelKind::FactorSums) = run_factor_sums<T>;
  at(KernelKind::FactorMoments) = run_factor_moments<T>;
  at(KernelKind::FactoredSquares) = run_factored_squares<T>;
  at(KernelKind::Adafactor) = run_adafactor<T>;
  at(KernelKind::Sgd) = run_sgd<T>;
  at(KernelKind::Conv2dForward) = run_conv2d_forward<T>;
  at(KernelKind::Conv2dBackwardInput) = run_conv2d_backward_input<T>;
  at(KernelKind::Conv2dBackwardWeight) = run_conv2d_backward_weight<T>;
  at(KernelKind::BatchNormStatistics) = run_batch_norm_statistics<T>;
  at(KernelKind::BatchNormCombine) = run_batch_norm_combine<T>;
  at(KernelKind::BatchNormRunning) = run_batch_norm_running<T>;
  at(KernelKind::BatchNormForward) = run_batch_norm_forward<T>;
  at(KernelKind::BatchNormBackwardSums) = run_batch_norm_backward_sums<T>;
  at(KernelKind::BatchNormBackwardInput) = run_batch_norm_backward_input<T>;
  at(KernelKind::BatchNormBackwardWeight) = run_batch_norm_backward_weight<T>;
  at(KernelKind::ReluForward) = run_relu_forward<T>;
  at(KernelKind::ReluBackward) = run_relu_backward<T>;
  at(KernelKind::MaxPoolForward) = run_max_pool_forward<T>;
  at(KernelKind::MaxPoolBackward) = run_max_pool_backward<T>;
  at(KernelKind::AveragePoolForward) = run_average_pool_forward<T>;
  at(KernelKind::AveragePoolBackward) = run_average_pool_backward<T>;
  at(KernelKind::GroupedGemm) = run_grouped_gemm<T>;
  at(KernelKind::GroupedGemmWeight) = run_grouped_gemm_weight<T>;
  at(KernelKind::RaggedGemm) = run_ragged_gemm<T>;
  at(KernelKind::RaggedGemmWeight) = run_ragged_gemm_weight<T>;
  at(KernelKind::RaggedQuantize) = run_ragged_quantize<T>;
  at(KernelKind::RaggedScaledGemm) = run_ragged_scaled_gemm<T>;
  at(KernelKind::RaggedScaledGemmWeight) = run_ragged_scaled_gemm_weight<T>;
  at(KernelKind::RaggedActivationForward) = run_ragged_activation_forward<T>;
  at(KernelKind::RaggedActivationBackward) = run_ragged_activation_backward<T>;
  at(KernelKind::RouteForward) = run_route_forward<T>;
  at(KernelKind::RouteBackward) = run_route_backward<T>;
  at(KernelKind::RouteLoad) = run_route_load<T>;
  at(KernelKind::RouterBias) = run_router_bias<T>;
  at(KernelKind::DelayedScale) = run_delayed_scale<T>;
  at(KernelKind::Largest) = run_largest<T>;
  at(KernelKind::RouteBalance) = run_route_balance<T>;
  at(KernelKind::CombineForward) = run_combine_forward<T>;
  at(KernelKind::CombineBackward) = run_combine_backward<T>;
  at(KernelKind::GateForward) = run_gate_forward<T>;
  at(KernelKind::GateBackward) = run_gate_backward<T>;
}

inline constexpr int kFmaChains = 12;  // at least an FMA's latency times how many start per cycle

template <class T>
T fma_rounds(int64_t iterations) {
  Vec<T> sums[kFmaChains];
  for (int c = 0; c < kFmaChains; ++c) sums[c] = splat(T(c));
  const Vec<T> factor = splat(T(0.999)), term = splat(T(0.001));
  for (int64_t i = 0; i < iterations; ++i) {
    LOCKSTEP_UNROLL
    for (Vec<T>& sum : sums) sum = sum * factor + term;
  }
  T total = 0;
  for (const Vec<T>& sum : sums) total += sum_lanes<T>(sum);
  return total;
}

template <class T>
void gemm_entry(bool ta, bool tb, int64_t m, int64_t n, int64_t k, const T* a, int64_t lda,
                const T* b, int64_t ldb, int beta, T* c, int64_t ldc) {
  Epilogue<T> epilogue;
  epilogue.add_c = beta != 0;
  gemm<T>(ta, tb, m, n, k, a, lda, b, ldb, c, ldc, epilogue);
}

inline KernelTable make_table(const char* isa) {
  KernelTable table;
  table.isa = isa;
  fill_column<float>(table.f32);
  fill_column<double>(table.f64);
  table.gemm_f32 = gemm_entry<float>;
  table.fma_rounds_f32 = fma_rounds<float>;
  table.fma_rounds_f64 = fma_rounds<double>;
  table.fma_flops_per_round_f32 = 2 * kFmaChains * kWidth<float>;
  table.fma_flops_per_round_f64 = 2 * kFmaChains * kWidth<double>;
  return table;
}

}  // namespace
}  // namespace lockstep::cpu
