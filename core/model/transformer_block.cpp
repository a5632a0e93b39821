// The block of a transformer: attention and the feed-forward network, each with a norm before it
// and a residual around it.
#include "core/model/feed_forward.hpp"
#include "core/model/self_attention.hpp"
#include "core/model/tensor_parallel.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_norm(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name,
                  std::int64_t width) {
  layer.add(name + ".weight", {width}, InitKind::Ones);
  if (spec.is_gpt2_kind()) layer.add(name + ".bias", {width}, InitKind::Zeros);
}

Norm::Norm(FunctionBuilder& f, const ModelSpec& spec, DType dtype, std::int64_t rows,
           std::int64_t width, const LayerTensors& p, const std::string& name, TensorId x,
           TensorId y)
    : f_(f),
      dims_({rows, width}),
      x_(x),
      w_(p.w(name + ".weight")),
      b_(p.w(name + ".bias")),
      gw_(p.g(name + ".weight")),
      gb_(p.g(name + ".bias")),
      layer_norm_(spec.is_gpt2_kind()) {
  stats_ = f.tensor(rows * (layer_norm_ ? 2 : 1), sum_type(dtype));
  if (layer_norm_) {
    f.emit(Part::Forward, KernelKind::LayerNormForward,
           {dims_, {spec.norm_eps}, {x, w_, b_}, {y, stats_}});
  } else {
    f.emit(Part::Forward, KernelKind::RmsNormForward,
           {dims_, {spec.norm_eps}, {x, w_}, {y, stats_}});
  }
}

void Norm::backward(TensorId dy, TensorId residual, TensorId dx) {
  if (layer_norm_) {
    f_.emit(Part::InputGrad, KernelKind::LayerNormBackwardInput,
            {dims_, {}, {dy, x_, w_, stats_, residual}, {dx}});
    f_.emit(Part::WeightGrad, KernelKind::LayerNormBackwardWeight,
            {dims_, {}, {dy, x_, stats_}, {gw_, gb_}});
  } else {
    f_.emit(Part::InputGrad, KernelKind::RmsNormBackwardInput,
            {dims_, {}, {dy, x_, w_, stats_, residual}, {dx}});
    f_.emit(Part::WeightGrad, KernelKind::RmsNormBackwardWeight,
            {dims_, {}, {dy, x_, stats_}, {gw_}});
  }
}

/// Declares the parameters of a block. Heads are divided over the ranks of "tp".
void declare_block(LayerDeclaration& layer, const ModelSpec& spec, bool experts) {
  declare_norm(layer, spec, spec.is_gpt2_kind() ? "ln1" : "norm1", spec.hidden);
  declare_self_attention(layer, spec);
  declare_norm(layer, spec, spec.is_gpt2_kind() ? "ln2" : "norm2", spec.hidden);
  experts ? declare_experts(layer, spec) : declare_dense(layer, spec, dense_of_block(spec));
}

LayerKind block_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                     const std::string& kind, const std::string& name,
                     const std::vector<LayerUnit>& units, bool experts,
                     const Recompute& recompute) {
  FunctionBuilder f(kind, shape.dtype, shape.gradient_dtype);
  TensorParallel tp(f, shape, 1, spec.lora.scale());
  tp.multiply_narrow();
  const LayerTensors p(f, model, name, units);
  const bool gpt2 = spec.is_gpt2_kind();
  const std::int64_t own = tp.own_rows();
  const std::int64_t c = spec.hidden;
  Dropout drop_attention(f, shape.residual_dropout, DropoutPlace::Attention, own, c);
  Dropout drop_network(f, shape.residual_dropout, DropoutPlace::FeedForward, own, c);
  const auto attention = self_attention(f, tp, spec, shape, p, drop_attention);
  const auto network =
      experts ? mixture_of_experts(f, tp, spec, shape, p, drop_network)
              : dense_network(f, tp, spec, shape, p, dense_of_block(spec), &drop_network);

  const TensorId x = f.formal("x", own * c);
  const TensorId y = f.formal("y", own * c);

  const TensorId h1 = f.tensor(own * c, "h1");
  Norm norm1(f, spec, shape.dtype, own, c, p, gpt2 ? "ln1" : "norm1", x, h1);
  const TensorId x1 = f.tensor(own * c);
  attention->forward(h1, x, x1);
  const TensorId h2 = f.tensor(own * c, "h2");
  Norm norm2(f, spec, shape.dtype, own, c, p, gpt2 ? "ln2" : "norm2", x1, h2);
  network->forward(h2, x1, y);

  const TensorId dy = f.formal("dy", own * c);
  const TensorId dx = f.formal("dx", own * c);
  const TensorId dh2 = f.tensor(own * c, "dh2");
  network->backward(dy, dh2);
  const TensorId dx1 = f.tensor(own * c, "dx1");
  norm2.backward(dh2, dy, dx1);
  const TensorId dh1 = f.tensor(own * c, "dh1");
  attention->backward(dx1, dh1);
  norm1.backward(dh1, dx1, dx);
  p.pad(f);
  if (spec.freezes()) f.drop_unneeded();
  f.recompute(recompute, shape.recomputes_all);
  return {std::move(f), true, true};
}

}  // namespace lockstep
