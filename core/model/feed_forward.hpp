// The feed-forward network of a block, dense or a mixture of experts, and its parameters. The sum
// with the residual belongs to it: without tensor parallelism it rides in the last product.
#pragma once

#include <memory>

#include "core/model/layer_parameters.hpp"
#include "core/model/tensor_parallel.hpp"

namespace lockstep {

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual void forward(TensorId x, TensorId residual, TensorId y) = 0;  // own rows
  /// dx: gradient of x; that of the residual is dy.
  virtual void backward(TensorId dy, TensorId dx) = 0;
};

/// Features are divided over the ranks of "tp".
void declare_dense(LayerDeclaration& layer, const ModelSpec& spec);
std::unique_ptr<FeedForward> dense_network(FunctionBuilder& f, TensorParallel& tp,
                                           const ModelSpec& spec, const LayerShape& shape,
                                           const LayerTensors& p);

/// Experts are divided over the ranks of "ep".
void declare_experts(LayerDeclaration& layer, const ModelSpec& spec);
std::unique_ptr<FeedForward> mixture_of_experts(FunctionBuilder& f, const ModelSpec& spec,
                                                const LayerShape& shape, const LayerTensors& p);

/// Standard deviation of the projections that write to the residual stream (GPT-2: 1/sqrt(2L)).
double residual_scale(const ModelSpec& spec);

/// GELU of `pre`, or SwiGLU of its two halves: [rows, 2 width] -> [rows, width].
void activation_forward(FunctionBuilder& f, const ModelSpec& spec, std::int64_t rows,
                        std::int64_t width, TensorId pre, TensorId act);
/// The gradient of `pre`; GELU's takes the place of `dact`.
TensorId activation_backward(FunctionBuilder& f, const ModelSpec& spec, std::int64_t rows,
                             std::int64_t width, TensorId dact, TensorId pre);

}  // namespace lockstep
