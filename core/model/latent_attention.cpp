// Latent attention (multi-head latent attention, DeepSeek-AI 2024, DeepSeek-V2, arXiv:2405.04434,
// section 2.1): keys and values of all heads are made of a narrow row c_kv of each token, and
// queries may be, too. Rotary positions have elements of their own in every head; of keys, these
// are the same in all heads.
//
//   c_q = norm(x · Wq_aᵀ)            q = c_q · Wq_bᵀ         heads of [nope | rope]; or q = x · Wqᵀ
//   [c | k_rope] = x · Wkv_aᵀ        kv = norm(c) · Wkv_bᵀ   heads of [nope | value]
//   qkv = join_latent(q, kv, k_rope), rotated; then attention as everywhere, whose results have
//   values behind zeros; y = residual + values · Woᵀ
//
// With tensor parallelism every rank has its heads, and what is before c_q, c_kv and k_rope whole.
// It computes these for all rows, or with sequence parallelism for its own rows, which are gathered
// then. Their gradients are sums over all heads, so over the ranks.
#include <optional>

#include "core/model/attention.hpp"
#include "core/model/self_attention.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_latent_attention(LayerDeclaration& layer, const ModelSpec& spec) {
  const std::int64_t c = spec.hidden;
  const LatentSpec& latent = spec.latent;
  const std::int64_t q = spec.heads * latent.qk_head_dim();
  const std::int64_t kv = spec.heads * (latent.qk_nope_head_dim + latent.v_head_dim);
  if (latent.q_lora_rank > 0) {
    layer.add("attn.wq_a", {latent.q_lora_rank, c}, InitKind::Normal, 0.02);
    layer.add_scales("attn.wq_a");
    declare_norm(layer, spec, "attn.q_a_norm", latent.q_lora_rank);
    layer.add("attn.wq_b", {q, latent.q_lora_rank}, InitKind::Normal, 0.02, {0, {q}});
    layer.add_scales("attn.wq_b");
  } else {
    layer.add("attn.wq", {q, c}, InitKind::Normal, 0.02, {0, {q}});
    layer.add_scales("attn.wq");
  }
  layer.add("attn.wkv_a", {latent.kv_lora_rank + latent.qk_rope_head_dim, c}, InitKind::Normal,
            0.02);
  layer.add_scales("attn.wkv_a");
  declare_norm(layer, spec, "attn.kv_a_norm", latent.kv_lora_rank);
  layer.add("attn.wkv_b", {kv, latent.kv_lora_rank}, InitKind::Normal, 0.02, {0, {kv}});
  layer.add_scales("attn.wkv_b");
}

namespace {

class LatentAttention final : public SelfAttention {
 public:
  LatentAttention(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
                  const LayerShape& shape, const LayerTensors& p, Dropout& dropout)
      : f_(f),
        tp_(tp),
        spec_(spec),
        shape_(shape),
        p_(p),
        hidden_(spec.hidden),
        queries_(spec.latent.q_lora_rank),
        keys_(spec.latent.kv_lora_rank),
        nope_(spec.latent.qk_nope_head_dim),
        rope_(spec.latent.qk_rope_head_dim),
        value_(spec.latent.v_head_dim),
        heads_(spec.heads / shape.tensor_parallel),
        attention_(f, spec, shape),
        q_down_(p.linear("attn.wq_a", "")),
        kv_down_(p.linear("attn.wkv_a", "")),
        q_narrowing_(tp.whole_products("q_down", q_down_)),
        kv_narrowing_(tp.whole_products("kv_down", kv_down_)),
        q_up_(f, tp, "q_up", queries_ > 0 ? queries_ : hidden_, heads_ * (nope_ + rope_),
              p.linear(queries_ > 0 ? "attn.wq_b" : "attn.wq", "")),
        kv_up_(f, tp, "kv_up", keys_, heads_ * (nope_ + value_), p.linear("attn.wkv_b", "")),
        out_(f, tp, "out", heads_ * value_, hidden_, p.linear("attn.wo", "")) {
    out_.drop(dropout);
    out_.drop_for_adapter(shape.adapter_dropout, DropoutPlace::AdapterOfProjection);
  }

  void forward(TensorId x, TensorId residual, TensorId y) override {
    x_ = x;
    const std::int64_t rows = tp_.rows();
    const TensorId q = f_.tensor(rows * heads_ * (nope_ + rope_));
    const TensorId narrow = queries_ > 0 ? narrow_queries() : x;
    {
      const auto scope = f_.within(ForwardPart::QueryUp);
      q_up_.forward(narrow, q);
    }
    const TensorId c = f_.tensor(own_rows() * keys_);
    const TensorId k_rope = f_.tensor(own_rows() * rope_, "k_rope");
    {
      const auto scope = f_.within(ForwardPart::KeyDown);
      const TensorId made = f_.tensor(own_rows() * (keys_ + rope_));
      kv_narrowing_.forward(own_rows(), hidden_, keys_ + rope_, x, kv_down_.w, {}, {}, made, true);
      f_.emit(Part::Forward, KernelKind::PartColumns,
              {{own_rows(), keys_, rope_}, {}, {made}, {c, k_rope}});
    }
    const TensorId normed = f_.tensor(own_rows() * keys_, "c_kv");
    norm(kv_norm_, keys_, "attn.kv_a_norm", c, normed);
    const TensorId attended = attention_.forward(widened(q, k_rope, normed));
    const auto scope = f_.within(ForwardPart::AttentionOutput);
    out_.forward(values_of(attended), residual, y);
  }

  void backward(TensorId dy, TensorId dx) override {
    attention_.prefetch_backward();
    const std::int64_t rows = tp_.rows();
    const TensorId d_values = f_.tensor(rows * heads_ * value_);
    out_.backward(dy, d_values);
    const TensorId d_qkv = attention_.backward(result_of(d_values));
    const TensorId dq = f_.tensor(rows * heads_ * (nope_ + rope_));
    const TensorId dkv = f_.tensor(rows * heads_ * (nope_ + value_));
    const TensorId dk_rope = f_.tensor(own_rows() * rope_, "dk_rope");
    const TensorId partial = tp_.partial(dk_rope, rope_, "dk_rope.all");
    f_.emit(Part::InputGrad, KernelKind::PartLatent,
            {latent_dims(), {}, {d_qkv}, {dq, dkv, partial}});
    tp_.sum(Part::InputGrad, partial, dk_rope);
    const TensorId dnormed = f_.tensor(own_rows() * keys_, "dc_kv");
    kv_up_.backward(dkv, dnormed);
    const TensorId through_queries = f_.tensor(own_rows() * hidden_, "dx_q");
    if (queries_ > 0) {
      backward_queries(dq, through_queries);
    } else {
      q_up_.backward(dq, through_queries);
    }
    const TensorId dc = f_.tensor(own_rows() * keys_);
    kv_norm_->backward(dnormed, {}, dc);
    const TensorId dmade = f_.tensor(own_rows() * (keys_ + rope_));
    f_.emit(Part::InputGrad, KernelKind::JoinColumns,
            {{own_rows(), keys_, rope_}, {}, {dc, dk_rope}, {dmade}});
    kv_narrowing_.input_gradient(own_rows(), hidden_, keys_ + rope_, dmade, kv_down_.w,
                                 through_queries, dx);
    kv_narrowing_.weight_gradient(own_rows(), hidden_, keys_ + rope_, dmade, x_, kv_down_.gw);
  }

 private:
  std::int64_t own_rows() const { return tp_.own_rows(); }
  std::vector<std::int64_t> latent_dims() const {
    return {tp_.rows(), heads_, nope_, rope_, value_};
  }

  TensorId narrow_queries() {
    const TensorId c = f_.tensor(own_rows() * queries_);
    {
      const auto scope = f_.within(ForwardPart::QueryDown);
      q_narrowing_.forward(own_rows(), hidden_, queries_, x_, q_down_.w, {}, {}, c, true);
    }
    const TensorId normed = f_.tensor(own_rows() * queries_, "c_q");
    norm(q_norm_, queries_, "attn.q_a_norm", c, normed);
    return normed;
  }
  void norm(std::optional<Norm>& made, std::int64_t width, const char* name, TensorId x,
            TensorId y) {
    const auto scope = f_.within(ForwardPart::InnerNorm);
    made.emplace(f_, spec_, shape_.dtype, own_rows(), width, p_, name, x, y);
  }
  /// Queries, keys and values of all heads.
  TensorId widened(TensorId q, TensorId k_rope, TensorId c_kv) {
    const auto scope = f_.within(ForwardPart::KeyUp);
    const TensorId k_rope_all = tp_.all_rows(Part::Forward, k_rope, rope_, "k_rope.all");
    const TensorId kv = f_.tensor(tp_.rows() * heads_ * (nope_ + value_));
    kv_up_.forward(c_kv, kv);
    const TensorId qkv = f_.tensor(tp_.rows() * attention_.qkv_width());
    f_.emit(Part::Forward, KernelKind::JoinLatent, {latent_dims(), {}, {q, kv, k_rope_all}, {qkv}});
    return qkv;
  }
  void backward_queries(TensorId dq, TensorId dx) {
    const TensorId dnormed = f_.tensor(own_rows() * queries_, "dc_q");
    q_up_.backward(dq, dnormed);
    const TensorId dc = f_.tensor(own_rows() * queries_);
    q_norm_->backward(dnormed, {}, dc);
    q_narrowing_.input_gradient(own_rows(), hidden_, queries_, dc, q_down_.w, {}, dx);
    q_narrowing_.weight_gradient(own_rows(), hidden_, queries_, dc, x_, q_down_.gw);
  }

  /// The values behind the zeros of each head's result, and the reverse for gradients: those of
  /// zeros are nobody's, and the attention kernels get zeros for them.
  TensorId values_of(TensorId result) {
    if (pad() == 0) return result;
    const TensorId values = f_.tensor(tp_.rows() * heads_ * value_);
    f_.emit(Part::Forward, KernelKind::Regroup, {regroup_dims(false), {}, {result}, {values}});
    return values;
  }
  TensorId result_of(TensorId d_values) {
    if (pad() == 0) return d_values;
    const std::int64_t elements = tp_.rows() * attention_.width();
    const TensorId d_result = f_.tensor(elements, "datt");
    f_.emit(Part::InputGrad, KernelKind::Fill, {{elements}, {0.0}, {}, {d_result}});
    f_.emit(Part::InputGrad, KernelKind::Regroup, {regroup_dims(true), {}, {d_values}, {d_result}});
    return d_result;
  }
  std::int64_t pad() const { return nope_ + rope_ - value_; }
  std::vector<std::int64_t> regroup_dims(bool inverse) const {
    return {tp_.rows() * heads_, 1, value_, 0, 0, inverse, pad()};
  }

  FunctionBuilder& f_;
  TensorParallel& tp_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  const LayerTensors& p_;
  std::int64_t hidden_, queries_, keys_, nope_, rope_, value_, heads_;
  Attention attention_;
  LinearTensors q_down_, kv_down_;
  LinearProducts q_narrowing_, kv_narrowing_;
  ColumnLinear q_up_, kv_up_;
  RowLinear out_;
  std::optional<Norm> q_norm_, kv_norm_;
  TensorId x_;
};

}  // namespace

std::unique_ptr<SelfAttention> latent_attention(FunctionBuilder& f, TensorParallel& tp,
                                                const ModelSpec& spec, const LayerShape& shape,
                                                const LayerTensors& p, Dropout& dropout) {
  return std::make_unique<LatentAttention>(f, tp, spec, shape, p, dropout);
}

}  // namespace lockstep
