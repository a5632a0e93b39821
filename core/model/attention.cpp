#include "core/model/attention.hpp"

namespace lockstep {

Attention::Attention(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape)
    : f_(f),
      spec_(spec),
      shape_(shape),
      heads_(spec.heads / shape.tensor_parallel),
      kv_heads_(spec.kv_heads * shape.kv_replicas / shape.tensor_parallel) {
  if (shape.gathers_keys) starts_ = f.formal("starts", 2 * (parts() + 1), DType::I32);
}

TensorId Attention::forward(TensorId qkv) {
  const std::int64_t rows = shape_.rows();
  qkv_ = exchanges() ? to_heads(Part::Forward, qkv, share_of_qkv(), "qkv") : qkv;
  rope(Part::Forward, qkv_, false);
  if (shape_.gathers_keys) {
    keys_ = f_.tensor(rows * keys_width(), "keys");
    regroup(Part::Forward, rows, 1, {keys_width(), 0, 0}, false, width(), qkv_, keys_);
    all_ = gather_keys(Part::Forward, "keys.all");
  }
  result_ = f_.tensor(rows * width(), "att");
  lse_ = f_.tensor(rows * heads_, sum_type(shape_.dtype));
  f_.emit(Part::Forward, KernelKind::AttentionForward,
          {dims(), {}, {qkv_, all_, starts_}, {result_, lse_}});
  const std::vector<std::int64_t> d = dims();
  f_.keep(d[0] * d[2] * d[1] * parts() * shape_.seq * shape_.score_bytes, lse_);
  return exchanges() ? to_tokens(Part::Forward, result_, share_of_result(), "att") : result_;
}

void Attention::prefetch_backward() {
  if (shape_.gathers_keys) all_ = gather_keys(Part::InputGrad, "keys.again");
}

TensorId Attention::backward(TensorId d_result) {
  const std::int64_t rows = shape_.rows();
  const TensorId d_out =
      exchanges() ? to_heads(Part::InputGrad, d_result, share_of_result(), "datt") : d_result;
  const TensorId d_qkv = f_.tensor(rows * qkv_width(), "dqkv");
  TensorId d_all;
  if (shape_.gathers_keys) d_all = f_.tensor(parts() * rows * keys_width(), "dkeys.all");
  f_.emit(Part::InputGrad, KernelKind::AttentionBackward,
          {dims(), {}, {qkv_, result_, lse_, d_out, all_, starts_}, {d_qkv, d_all}});
  if (shape_.gathers_keys) {
    const TensorId d_keys = f_.tensor(rows * keys_width(), "dkeys");
    f_.communicate(Part::InputGrad, OpKind::ReduceScatter, "cp", d_all, d_keys);
    regroup(Part::InputGrad, rows, 1, {keys_width(), 0, 0}, true, width(), d_keys, d_qkv);
  }
  rope(Part::InputGrad, d_qkv, true);
  return exchanges() ? to_tokens(Part::InputGrad, d_qkv, share_of_qkv(), "dqkv") : d_qkv;
}

Attention::Share Attention::share_of_qkv() const {
  const std::int64_t kv = kv_heads_ * spec_.head_dim / parts();
  return {width() / parts(), kv, kv};
}

TensorId Attention::to_heads(Part part, TensorId x, const Share& share, const std::string& name) {
  const std::int64_t elements = shape_.rows() * parts() * share.cols();
  const TensorId sent = f_.tensor(elements, name + ".heads_sent");
  regroup(part, shape_.rows(), parts(), share, false, 0, x, sent);
  const TensorId slices = f_.tensor(elements, name + ".heads");  // [parts, batch, seq, cols]
  f_.communicate(part, OpKind::AllToAll, "cp", sent, slices);
  if (shape_.batch == 1) return slices;
  const TensorId whole = f_.tensor(elements);
  regroup(part, shape_.batch, parts(), {shape_.seq * share.cols(), 0, 0}, true, 0, slices, whole);
  return whole;
}

TensorId Attention::to_tokens(Part part, TensorId x, const Share& share, const std::string& name) {
  const std::int64_t elements = shape_.rows() * parts() * share.cols();
  TensorId sent = x;
  if (shape_.batch > 1) {
    sent = f_.tensor(elements, name + ".tokens_sent");
    regroup(part, shape_.batch, parts(), {shape_.seq * share.cols(), 0, 0}, false, 0, x, sent);
  }
  const TensorId shares = f_.tensor(elements, name + ".tokens");  // [parts, batch, seq, cols]
  f_.communicate(part, OpKind::AllToAll, "cp", sent, shares);
  const TensorId all = f_.tensor(elements);
  regroup(part, shape_.rows(), parts(), share, true, 0, shares, all);
  return all;
}

TensorId Attention::gather_keys(Part part, const std::string& name) {
  const TensorId all = f_.tensor(parts() * shape_.rows() * keys_width(), name);
  f_.communicate(part, OpKind::AllGather, "cp", keys_, all);
  return all;
}

void Attention::regroup(Part part, std::int64_t rows, std::int64_t parts, const Share& share,
                        bool inverse, std::int64_t skip, TensorId x, TensorId y) {
  f_.emit(part, KernelKind::Regroup,
          {{rows, parts, share.q, share.k, share.v, inverse, skip}, {}, {x}, {y}});
}

/// Rotates queries and keys by the angles of their positions.
void Attention::rope(Part part, TensorId qkv, bool inverse) {
  if (spec_.architecture == Architecture::Gpt2) return;
  const std::vector<std::int64_t> d = dims();
  const RopeScaling& rope = spec_.rope_scaling;
  f_.emit(part, KernelKind::Rope,
          {{d[0], d[1], d[2] + d[3], d[4], d[2] + 2 * d[3], inverse},
           {spec_.rope_theta, rope.slowing(), rope.longest(), rope.shortest()},
           {qkv, starts_},
           {qkv}});
}

/// The dimensions of the attention kernels. If tokens are exchanged for heads, a rank has whole
/// sequences and a share of the heads; otherwise it has its own tokens and all heads.
std::vector<std::int64_t> Attention::dims() const {
  if (shape_.gathers_keys) {
    return {shape_.batch, shape_.seq, heads_, kv_heads_, spec_.head_dim, parts()};
  }
  return {shape_.batch, parts() * shape_.seq, heads_ / parts(), kv_heads_ / parts(),
          spec_.head_dim};
}

HeadNorms::HeadNorms(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape,
                     const Attention& attention, const LayerTensors& p)
    : f_(f),
      eps_(spec.norm_eps),
      stats_type_(sum_type(shape.dtype)),
      dims_({shape.rows(), attention.width() / spec.head_dim,
             attention.keys_width() / (2 * spec.head_dim), spec.head_dim}),
      elements_(shape.rows() * attention.qkv_width()),
      wq_(p.w("attn.q_norm")),
      wk_(p.w("attn.k_norm")),
      gq_(p.g("attn.q_norm")),
      gk_(p.g("attn.k_norm")) {}

TensorId HeadNorms::forward(TensorId qkv) {
  if (!wq_.valid()) return qkv;
  x_ = qkv;
  const TensorId y = f_.tensor(elements_);
  stats_ = f_.tensor(dims_[0] * (dims_[1] + dims_[2]), stats_type_);
  f_.emit(Part::Forward, KernelKind::HeadNormForward, {dims_, {eps_}, {x_, wq_, wk_}, {y, stats_}});
  return y;
}

TensorId HeadNorms::backward(TensorId d_qkv) {
  if (!wq_.valid()) return d_qkv;
  const TensorId dx = f_.tensor(elements_);
  f_.emit(Part::InputGrad, KernelKind::HeadNormBackwardInput,
          {dims_, {}, {d_qkv, x_, wq_, wk_, stats_}, {dx}});
  f_.emit(Part::WeightGrad, KernelKind::HeadNormBackwardWeight,
          {dims_, {}, {d_qkv, x_, stats_}, {gq_, gk_}});
  return dx;
}

}  // namespace lockstep
