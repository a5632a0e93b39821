// Self attention: the first half of a block between its norm and the sum with the residual, and its
// parameters. The sum belongs to it, because without tensor parallelism the last product adds it.
#pragma once

#include <memory>

#include "core/model/layer_parameters.hpp"
#include "core/model/tensor_parallel.hpp"

namespace lockstep {

class SelfAttention {
 public:
  virtual ~SelfAttention() = default;
  virtual void forward(TensorId x, TensorId residual, TensorId y) = 0;  // on own rows
  /// `dx` gets the gradient of x; the gradient of the residual is dy.
  virtual void backward(TensorId dy, TensorId dx) = 0;
};

/// The attention that the model has. Heads are divided over the ranks of "tp". `dropout` is of what
/// it adds to the residual, and must outlive it.
void declare_self_attention(LayerDeclaration& layer, const ModelSpec& spec);
std::unique_ptr<SelfAttention> self_attention(FunctionBuilder& f, TensorParallel& tp,
                                              const ModelSpec& spec, const LayerShape& shape,
                                              const LayerTensors& p, Dropout& dropout);

/// The projection of all heads' results, and its adapter. It adds to the residual.
void declare_output(LayerDeclaration& layer, const ModelSpec& spec);

/// Latent attention (LatentSpec), which those above call for models that have it.
void declare_latent_attention(LayerDeclaration& layer, const ModelSpec& spec);
std::unique_ptr<SelfAttention> latent_attention(FunctionBuilder& f, TensorParallel& tp,
                                                const ModelSpec& spec, const LayerShape& shape,
                                                const LayerTensors& p, Dropout& dropout);

}  // namespace lockstep
