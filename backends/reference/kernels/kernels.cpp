#include "backends/reference/kernels/kernels.hpp"

#include <chrono>
#include <thread>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {
namespace {

void delay(Operands& k) { std::this_thread::sleep_for(std::chrono::duration<double>(k.scalar(0))); }

using Definition = void (*)(Operands&);
Definition definition_of(KernelKind kind) {
  switch (kind) {
    case KernelKind::Gemm:
      return gemm;
    case KernelKind::Quantize:
      return quantize;
    case KernelKind::ScaledGemm:
      return scaled_gemm;
    case KernelKind::ToCodes:
      return to_codes;
    case KernelKind::FromCodes:
      return from_codes;
    case KernelKind::Orthonormalize:
      return orthonormalize;
    case KernelKind::ColumnSum:
      return column_sum;
    case KernelKind::AttentionForward:
      return attention_forward;
    case KernelKind::AttentionBackward:
      return attention_backward;
    case KernelKind::LayerNormForward:
      return layer_norm_forward;
    case KernelKind::LayerNormBackwardInput:
      return layer_norm_backward_input;
    case KernelKind::LayerNormBackwardWeight:
      return layer_norm_backward_weight;
    case KernelKind::RmsNormForward:
      return rms_norm_forward;
    case KernelKind::RmsNormBackwardInput:
      return rms_norm_backward_input;
    case KernelKind::RmsNormBackwardWeight:
      return rms_norm_backward_weight;
    case KernelKind::HeadNormForward:
      return head_norm_forward;
    case KernelKind::HeadNormBackwardInput:
      return head_norm_backward_input;
    case KernelKind::HeadNormBackwardWeight:
      return head_norm_backward_weight;
    case KernelKind::GeluForward:
      return gelu_forward;
    case KernelKind::GeluBackward:
      return gelu_backward;
    case KernelKind::SwigluForward:
      return swiglu_forward;
    case KernelKind::SwigluBackward:
      return swiglu_backward;
    case KernelKind::Rope:
      return rope;
    case KernelKind::JoinLatent:
      return join_latent;
    case KernelKind::PartLatent:
      return part_latent;
    case KernelKind::EmbeddingForward:
      return embedding_forward;
    case KernelKind::EmbeddingBackward:
      return embedding_backward;
    case KernelKind::CrossEntropy:
      return cross_entropy;
    case KernelKind::CrossEntropyStats:
      return cross_entropy_stats;
    case KernelKind::CrossEntropyParallel:
      return cross_entropy_parallel;
    case KernelKind::Add:
      return add;
    case KernelKind::Dropout:
      return dropout;
    case KernelKind::Scale:
      return scale;
    case KernelKind::Regroup:
      return regroup;
    case KernelKind::JoinColumns:
      return join_columns;
    case KernelKind::PartColumns:
      return part_columns;
    case KernelKind::Fill:
      return fill;
    case KernelKind::Sum:
      return sum;
    case KernelKind::NormSquared:
      return norm_squared;
    case KernelKind::ClipCoefficient:
      return clip_coefficient;
    case KernelKind::AdamW:
    case KernelKind::AdamW8bit:
      return adamw;
    case KernelKind::Adam:
      return adam;
    case KernelKind::RouterBias:
      return router_bias;
    case KernelKind::DelayedScale:
      return delayed_scale;
    case KernelKind::Largest:
      return largest;
    case KernelKind::Momentum:
      return momentum;
    case KernelKind::Normalize:
      return normalize;
    case KernelKind::Muon:
      return muon;
    case KernelKind::ReplicaTerm:
      return replica_term;
    case KernelKind::OuterSgd:
      return outer_sgd;
    case KernelKind::FactorSums:
      return factor_sums;
    case KernelKind::FactorMoments:
      return factor_moments;
    case KernelKind::FactoredSquares:
      return factored_squares;
    case KernelKind::Adafactor:
      return adafactor;
    case KernelKind::Sgd:
      return sgd;
    case KernelKind::Conv2dForward:
      return conv2d_forward;
    case KernelKind::Conv2dBackwardInput:
      return conv2d_backward_input;
    case KernelKind::Conv2dBackwardWeight:
      return conv2d_backward_weight;
    case KernelKind::BatchNormStatistics:
      return batch_norm_statistics;
    case KernelKind::BatchNormCombine:
      return batch_norm_combine;
    case KernelKind::BatchNormRunning:
      return batch_norm_running;
    case KernelKind::BatchNormForward:
      return batch_norm_forward;
    case KernelKind::BatchNormBackwardSums:
      return batch_norm_backward_sums;
    case KernelKind::BatchNormBackwardInput:
      return batch_norm_backward_input;
    case KernelKind::BatchNormBackwardWeight:
      return batch_norm_backward_weight;
    case KernelKind::ReluForward:
      return relu_forward;
    case KernelKind::ReluBackward:
      return relu_backward;
    case KernelKind::MaxPoolForward:
      return max_pool_forward;
    case KernelKind::MaxPoolBackward:
      return max_pool_backward;
    case KernelKind::AveragePoolForward:
      return average_pool_forward;
    case KernelKind::AveragePoolBackward:
      return average_pool_backward;
    case KernelKind::GroupedGemm:
      return grouped_gemm;
    case KernelKind::GroupedGemmWeight:
      return grouped_gemm_weight;
    case KernelKind::RaggedGemm:
      return ragged_gemm;
    case KernelKind::RaggedGemmWeight:
      return ragged_gemm_weight;
    case KernelKind::RaggedQuantize:
      return ragged_quantize;
    case KernelKind::RaggedScaledGemm:
      return ragged_scaled_gemm;
    case KernelKind::RaggedScaledGemmWeight:
      return ragged_scaled_gemm_weight;
    case KernelKind::RaggedActivationForward:
      return ragged_activation_forward;
    case KernelKind::RaggedActivationBackward:
      return ragged_activation_backward;
    case KernelKind::RouteForward:
      return route_forward;
    case KernelKind::RouteBackward:
      return route_backward;
    case KernelKind::RouteLoad:
      return route_load;
    case KernelKind::RouteBalance:
      return route_balance;
    case KernelKind::CombineForward:
      return combine_forward;
    case KernelKind::CombineBackward:
      return combine_backward;
    case KernelKind::GateForward:
      return gate_forward;
    case KernelKind::GateBackward:
      return gate_backward;
    case KernelKind::Delay:
      return delay;
  }
  return nullptr;
}

}  // namespace

bool supports(const Kernel& kernel) {
  return kernel.kind == KernelKind::Delay || types_fit(kernel);
}

void run_kernel(const Kernel& kernel, std::span<std::byte* const> buffers,
                const StepContext& context) {
  Operands operands(kernel, buffers, context);
  definition_of(kernel.kind)(operands);
  operands.store();
}

}  // namespace lockstep::reference
