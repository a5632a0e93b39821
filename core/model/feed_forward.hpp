// Feed-forward: the feed-forward network of a block, dense or a mixture of experts, and its
// parameters. The sum with the residual belongs to it, because without tensor parallelism the last
// product adds it.
#pragma once

#include <memory>
#include <string>

#include "core/model/layer_parameters.hpp"
#include "core/model/tensor_parallel.hpp"

namespace lockstep {

class FeedForward {
 public:
  virtual ~FeedForward() = default;
  virtual void forward(TensorId x, TensorId residual, TensorId y) = 0;  // on own rows
  /// `dx` gets the gradient of x; the gradient of the residual is dy.
  virtual void backward(TensorId dy, TensorId dx) = 0;
};

/// A dense network: the one of a block, or the one that is beside experts.
struct Dense {
  std::string name;  // its parameters begin with this, and what it communicates
  std::int64_t width;
  bool ends_with_bias;  // if the model has biases; then it needs a residual
};
inline Dense dense_of_block(const ModelSpec& spec) { return {"mlp", spec.dense_width(), true}; }
inline Dense shared_expert(const ModelSpec& spec) {
  return {"moe.shared", spec.shared_expert_hidden, false};
}

/// The dense network. Its features are divided over the ranks of "tp".
void declare_dense(LayerDeclaration& layer, const ModelSpec& spec, const Dense& dense);
/// `dropout` is of what it adds to the residual, and must outlive it.
std::unique_ptr<FeedForward> dense_network(FunctionBuilder& f, TensorParallel& tp,
                                           const ModelSpec& spec, const LayerShape& shape,
                                           const LayerTensors& p, const Dense& dense,
                                           Dropout* dropout = nullptr);

/// The mixture of experts, with its shared expert if it has one. Experts are divided over the ranks
/// of "ep".
void declare_experts(LayerDeclaration& layer, const ModelSpec& spec);
std::unique_ptr<FeedForward> mixture_of_experts(FunctionBuilder& f, TensorParallel& tp,
                                                const ModelSpec& spec, const LayerShape& shape,
                                                const LayerTensors& p, Dropout& dropout);

/// The network that every token takes beside the experts that it chooses.
class SharedExpert {
 public:
  SharedExpert(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
               const LayerShape& shape, const LayerTensors& p);
  /// Returns its result for own rows x, added to the residual.
  TensorId forward(TensorId x, TensorId residual);
  /// Returns its part of the gradient of x.
  TensorId backward(TensorId dy);

 private:
  FunctionBuilder& f_;
  std::int64_t rows_, hidden_;
  DType wide_;
  LinearTensors gate_;
  std::unique_ptr<FeedForward> network_;
  TensorId x_, made_, logits_;
};
void declare_shared_expert(LayerDeclaration& layer, const ModelSpec& spec);

/// The initial standard deviation of projections that add to the residual (GPT-2 scales it by
/// 1/sqrt(2L)).
double residual_scale(const ModelSpec& spec);

/// Computes the model's activation of `pre` [rows, width]; if it is gated, [rows, 2 width].
void activation_forward(FunctionBuilder& f, const ModelSpec& spec, std::int64_t rows,
                        std::int64_t width, TensorId pre, TensorId act);
/// Returns the gradient of `pre`, which overwrites `dact` unless the activation is gated.
TensorId activation_backward(FunctionBuilder& f, const ModelSpec& spec, std::int64_t rows,
                             std::int64_t width, TensorId dact, TensorId pre);

}  // namespace lockstep
