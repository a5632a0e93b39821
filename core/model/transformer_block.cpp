// The block of a transformer: attention and the feed-forward network, each with a norm before it
// and a residual around it.
#include "core/model/attention.hpp"
#include "core/model/feed_forward.hpp"
#include "core/model/tensor_parallel.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_norm(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name) {
  layer.add(name + ".weight", {spec.hidden}, InitKind::Ones);
  if (spec.is_gpt2_kind()) layer.add(name + ".bias", {spec.hidden}, InitKind::Zeros);
}

Norm::Norm(FunctionBuilder& f, const ModelSpec& spec, DType dtype, std::int64_t rows,
           const LayerTensors& p, const std::string& name, TensorId x, TensorId y)
    : f_(f),
      dims_({rows, spec.hidden}),
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
  const std::int64_t c = spec.hidden;
  const std::int64_t attention = spec.heads * spec.head_dim;
  const std::int64_t kv = spec.kv_heads * spec.head_dim;
  const std::int64_t qkv = attention + 2 * kv;
  const double residual = residual_scale(spec);
  const Split by_heads{0, {attention, kv, kv}, true}, by_inputs{1, {attention}};
  if (spec.is_gpt2_kind()) {
    declare_norm(layer, spec, "ln1");
    layer.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02, by_heads);
    layer.add("attn.bqkv", {qkv}, InitKind::Zeros, 0, by_heads);
    layer.add("attn.wo", {c, attention}, InitKind::Normal, residual, by_inputs);
    layer.add("attn.bo", {c}, InitKind::Zeros);
    declare_norm(layer, spec, "ln2");
  } else {
    declare_norm(layer, spec, "norm1");
    layer.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02, by_heads);
    if (spec.qkv_bias) layer.add("attn.bqkv", {qkv}, InitKind::Zeros, 0, by_heads);
    for (const char* norm : {"attn.q_norm", "attn.k_norm"}) {
      if (spec.qk_norm)
        layer.add(norm, {spec.head_dim}, InitKind::Ones, 0, {-1, {}, false, "_heads"});
    }
    layer.add("attn.wo", {c, attention}, InitKind::Normal, residual, by_inputs);
    declare_norm(layer, spec, "norm2");
  }
  if (spec.adapts("linear_qkv")) layer.add_adapter("attn.wqkv", qkv, c, by_heads);
  if (spec.adapts("linear_proj")) layer.add_adapter("attn.wo", c, attention, by_inputs);
  experts ? declare_experts(layer, spec) : declare_dense(layer, spec, dense_of_block(spec));
}

LayerKind block_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                     const std::string& kind, const std::string& name,
                     const std::vector<LayerUnit>& units, bool experts,
                     const Recompute& recompute) {
  FunctionBuilder f(kind, shape.dtype, shape.gradient_dtype);
  TensorParallel tp(f, shape, 1, spec.lora.scale());
  const LayerTensors p(f, model, name, units);
  const bool gpt2 = spec.is_gpt2_kind();
  const std::int64_t n = tp.rows();
  const std::int64_t own = tp.own_rows();
  const std::int64_t c = spec.hidden;
  Attention attention(f, spec, shape);
  const bool shares_keys = shape.kv_replicas > 1;
  ColumnLinear qkv_linear(f, tp, "qkv", c, shares_keys ? attention.width() : attention.qkv_width(),
                          p.linear("attn.wqkv", "attn.bqkv"));
  if (shares_keys) {
    qkv_linear.beside(attention.keys_width(), p.linear("attn.wqkv", "attn.bqkv", "_kv"));
  }
  HeadNorms head_norms(f, spec, shape, attention, p);
  Dropout drop_attention(f, shape.residual_dropout, DropoutPlace::Attention, own, c);
  Dropout drop_network(f, shape.residual_dropout, DropoutPlace::FeedForward, own, c);
  RowLinear out_linear(f, tp, "out", attention.width(), c, p.linear("attn.wo", "attn.bo"));
  out_linear.drop(drop_attention);
  const auto network =
      experts ? mixture_of_experts(f, tp, spec, shape, p, drop_network)
              : dense_network(f, tp, spec, shape, p, dense_of_block(spec), &drop_network);

  const TensorId x = f.formal("x", own * c);
  const TensorId y = f.formal("y", own * c);

  const TensorId h1 = f.tensor(own * c, "h1");
  Norm norm1(f, spec, shape.dtype, own, p, gpt2 ? "ln1" : "norm1", x, h1);
  const TensorId qkv = f.tensor(n * attention.qkv_width());
  qkv_linear.forward(h1, qkv);
  const TensorId att = attention.forward(head_norms.forward(qkv));
  const TensorId x1 = f.tensor(own * c);
  out_linear.forward(att, x, x1);
  const TensorId h2 = f.tensor(own * c, "h2");
  Norm norm2(f, spec, shape.dtype, own, p, gpt2 ? "ln2" : "norm2", x1, h2);
  network->forward(h2, x1, y);

  const TensorId dy = f.formal("dy", own * c);
  const TensorId dx = f.formal("dx", own * c);
  const TensorId dh2 = f.tensor(own * c, "dh2");
  network->backward(dy, dh2);
  const TensorId dx1 = f.tensor(own * c, "dx1");
  norm2.backward(dh2, dy, dx1);
  attention.prefetch_backward();
  const TensorId datt = f.tensor(n * attention.width());
  out_linear.backward(dx1, datt);
  const TensorId dqkv = head_norms.backward(attention.backward(datt));
  const TensorId dh1 = f.tensor(own * c, "dh1");
  qkv_linear.backward(dqkv, dh1);
  norm1.backward(dh1, dx1, dx);
  p.pad(f);
  if (spec.freezes()) f.drop_unneeded();
  f.recompute(recompute, shape.recomputes_all);
  return {std::move(f), true, true};
}

}  // namespace lockstep
