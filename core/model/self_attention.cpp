#include "core/model/self_attention.hpp"

#include "core/model/attention.hpp"
#include "core/model/feed_forward.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {
namespace {

/// Queries, keys and values from one projection of the hidden state; heads of queries may share
/// those of keys and values.
void declare_grouped_attention(LayerDeclaration& layer, const ModelSpec& spec) {
  const std::int64_t c = spec.hidden;
  const std::int64_t attention = spec.heads * spec.head_dim;
  const std::int64_t kv = spec.kv_heads * spec.head_dim;
  const std::int64_t qkv = attention + 2 * kv;
  const Split by_heads{0, {attention, kv, kv}, true};
  layer.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02, by_heads);
  layer.add_scales("attn.wqkv");
  if (spec.has_biases() || spec.qkv_bias) {
    layer.add("attn.bqkv", {qkv}, InitKind::Zeros, 0, by_heads);
  }
  for (const char* norm : {"attn.q_norm", "attn.k_norm"}) {
    if (spec.qk_norm)
      layer.add(norm, {spec.head_dim}, InitKind::Ones, 0, {-1, {}, false, "_heads"});
  }
  if (spec.adapts("linear_qkv")) layer.add_adapter("attn.wqkv", qkv, c, by_heads);
}

class GroupedAttention final : public SelfAttention {
 public:
  GroupedAttention(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
                   const LayerShape& shape, const LayerTensors& p, Dropout& dropout)
      : f_(f),
        rows_(tp.rows()),
        attention_(f, spec, shape),
        qkv_linear_(f, tp, "qkv", spec.hidden,
                    shape.kv_replicas > 1 ? attention_.width() : attention_.qkv_width(),
                    p.linear("attn.wqkv", "attn.bqkv")),
        head_norms_(f, spec, shape, attention_, p),
        out_linear_(f, tp, "out", attention_.width(), spec.hidden, p.linear("attn.wo", "attn.bo")) {
    out_linear_.drop(dropout);
    qkv_linear_.drop_for_adapter(shape.adapter_dropout, DropoutPlace::AdapterOfQkv);
    out_linear_.drop_for_adapter(shape.adapter_dropout, DropoutPlace::AdapterOfProjection);
    if (shape.kv_replicas > 1) {
      qkv_linear_.beside(attention_.keys_width(), p.linear("attn.wqkv", "attn.bqkv", "_kv"));
    }
  }

  void forward(TensorId x, TensorId residual, TensorId y) override {
    const TensorId qkv = f_.tensor(rows_ * attention_.qkv_width());
    {
      const auto scope = f_.within(ForwardPart::QueryKeyValue, 3);
      qkv_linear_.forward(x, qkv);
    }
    const TensorId attended = attention_.forward(head_norms_.forward(qkv));
    const auto scope = f_.within(ForwardPart::AttentionOutput);
    out_linear_.forward(attended, residual, y);
  }

  void backward(TensorId dy, TensorId dx) override {
    attention_.prefetch_backward();
    const TensorId d_result = f_.tensor(rows_ * attention_.width());
    out_linear_.backward(dy, d_result);
    qkv_linear_.backward(head_norms_.backward(attention_.backward(d_result)), dx);
  }

 private:
  FunctionBuilder& f_;
  std::int64_t rows_;
  Attention attention_;
  ColumnLinear qkv_linear_;
  HeadNorms head_norms_;
  RowLinear out_linear_;
};

}  // namespace

void declare_output(LayerDeclaration& layer, const ModelSpec& spec) {
  const std::int64_t c = spec.hidden, width = spec.attention_width();
  const Split by_inputs{1, {width}};
  layer.add("attn.wo", {c, width}, InitKind::Normal, residual_scale(spec), by_inputs);
  layer.add_scales("attn.wo");
  if (spec.has_biases()) layer.add("attn.bo", {c}, InitKind::Zeros);
  if (spec.adapts("linear_proj")) layer.add_adapter("attn.wo", c, width, by_inputs);
}

void declare_self_attention(LayerDeclaration& layer, const ModelSpec& spec) {
  spec.is_latent() ? declare_latent_attention(layer, spec) : declare_grouped_attention(layer, spec);
  declare_output(layer, spec);
}

std::unique_ptr<SelfAttention> self_attention(FunctionBuilder& f, TensorParallel& tp,
                                              const ModelSpec& spec, const LayerShape& shape,
                                              const LayerTensors& p, Dropout& dropout) {
  if (spec.is_latent()) return latent_attention(f, tp, spec, shape, p, dropout);
  return std::make_unique<GroupedAttention>(f, tp, spec, shape, p, dropout);
}

}  // namespace lockstep
