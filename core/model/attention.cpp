#include "core/model/attention.hpp"

#include <algorithm>
#include <array>
#include <cmath>

#include "core/base/documents.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {

constexpr DType kIndex = DType::I32;

Attention::Attention(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape)
    : f_(f),
      spec_(spec),
      shape_(shape),
      heads_(spec.heads / shape.tensor_parallel),
      kv_heads_(spec.kv_heads * shape.kv_replicas / shape.tensor_parallel),
      heads_axis_(parts() > 1 ? "cp_heads" : "cp"),
      keys_axis_(sharers() > 1 ? "cp_keys" : "cp"),
      window_(shape.window) {
  const std::int64_t pieces = shape.passes_keys ? 2 * parts() : parts() + 1;
  if (shape.gathers_keys || shape.passes_keys) starts_ = {f.formal("starts", 2 * pieces, kIndex)};
  if (window_ > 0) {
    documents_ = f.formal("windows", rows(), kIndex);  // no key before that is seen
  } else if (shape.mean_document > 0) {
    documents_ = spec.is_causal() ? f.formal("documents", rows(), kIndex)
                                  : f.formal("document_spans", 2 * rows(), kIndex);
  }
  if (shape.attention_dropout > 0) {
    dropout_ = f.formal("attention_dropout", own_width() / spec.head_dim + rows(), kIndex);
  }
  for (std::int64_t t = 0; shape.passes_keys && t < parts(); ++t) {
    starts_.push_back(f.inside("starts", 4 * t, 4, 2 * pieces, kIndex));
  }
}

TensorId Attention::forward(TensorId qkv) {
  qkv_ = exchanges() ? to_heads(Part::Forward, qkv, share_of_qkv(), "qkv") : qkv;
  rope(Part::Forward, qkv_, false);
  if (divides_keys()) {
    keys_ = f_.tensor(rows() * own_keys_width(), "keys");
    regroup(Part::Forward, rows(), 1, {own_keys_width(), 0, 0}, false, own_width(), qkv_, keys_);
  }
  if (shape_.gathers_keys) all_ = gather_keys(Part::Forward, "keys.all");
  if (shape_.passes_keys) passing_ = pass_on(Part::Forward, keys_, "keys.1");
  result_ = f_.tensor(rows() * own_width(), "att");
  lse_ = f_.tensor(rows() * own_width() / spec_.head_dim, sum_type(shape_.dtype));
  meet(Part::Forward, [&](const Keys& keys) {
    const auto scope = f_.within(ForwardPart::CoreAttention);
    f_.emit(Part::Forward, KernelKind::AttentionForward,
            {dims(keys.turn),
             scalars(),
             {qkv_, keys.all, keys.starts, documents_, dropout_},
             {result_, lse_},
             keys.turn > 0});
  });
  const std::int64_t sequence = shape_.context_parallel * shape_.seq;
  f_.keep(rows() * own_width() / spec_.head_dim * sequence * shape_.score_bytes, lse_);
  return exchanges() ? to_tokens(Part::Forward, result_, share_of_result(), "att") : result_;
}

void Attention::prefetch_backward() {
  if (shape_.gathers_keys) all_ = gather_keys(Part::InputGrad, "keys.again");
  if (shape_.passes_keys) passing_ = pass_on(Part::InputGrad, keys_, "keys.again.1");
}

TensorId Attention::backward(TensorId d_result) {
  const TensorId d_out =
      exchanges() ? to_heads(Part::InputGrad, d_result, share_of_result(), "datt") : d_result;
  const TensorId d_qkv = f_.tensor(rows() * (own_width() + own_keys_width()), "dqkv");
  TensorId d_own, d_others;
  meet(Part::InputGrad, [&](const Keys& keys) {
    const std::string number = "." + std::to_string(keys.turn);
    const bool gathered = shape_.gathers_keys;
    TensorId d_keys;
    if (divides_keys()) {
      d_keys = f_.tensor((gathered ? parts() : 1) * rows() * own_keys_width(),
                         gathered ? "dkeys.all" : "dkeys" + number);
    }
    f_.emit(Part::InputGrad, KernelKind::AttentionBackward,
            {dims(keys.turn),
             scalars(),
             {qkv_, result_, lse_, d_out, keys.all, keys.starts, documents_, dropout_},
             {d_qkv, d_keys},
             keys.turn > 0});
    if (keys.turn == 0) {
      d_own = d_keys;
      return;
    }
    if (keys.turn > 1) d_keys = sum(d_others, d_keys, "dkeys.sum" + number);
    d_others = pass_on(Part::InputGrad, d_keys, "dkeys.passed" + number);
  });
  if (shape_.gathers_keys) {
    const TensorId all = d_own;
    d_own = f_.tensor(rows() * own_keys_width(), "dkeys");
    f_.communicate(Part::InputGrad, OpKind::ReduceScatter, keys_axis_, all, d_own);
  }
  if (shape_.passes_keys) d_own = sum(d_others, d_own, "dkeys");
  if (divides_keys()) {
    regroup(Part::InputGrad, rows(), 1, {own_keys_width(), 0, 0}, true, own_width(), d_own, d_qkv);
  }
  rope(Part::InputGrad, d_qkv, true);
  return exchanges() ? to_tokens(Part::InputGrad, d_qkv, share_of_qkv(), "dqkv") : d_qkv;
}

/// Calls `attend` for all keys at once or, where they are passed on, for those of one rank after
/// the other: first its own, while those of the rank before it are under way.
void Attention::meet(Part part, const std::function<void(const Keys&)>& attend) {
  if (!shape_.passes_keys) return attend({0, all_, starts_.empty() ? TensorId{} : starts_[0]});
  const std::string name = part == Part::Forward ? "keys." : "keys.again.";
  TensorId here = keys_;
  for (int turn = 0; turn < parts(); ++turn) {
    TensorId next;
    if (turn == 0) next = passing_;
    if (turn > 0 && turn + 1 < parts()) next = pass_on(part, here, name + std::to_string(turn + 1));
    attend({turn, here, starts_[to_size(turn) + 1]});
    here = next;
  }
}

TensorId Attention::pass_on(Part part, TensorId x, const std::string& name) {
  const TensorId next = f_.tensor(rows() * own_keys_width(), name);
  f_.communicate(part, OpKind::Rotate, keys_axis_, x, next);
  return next;
}

TensorId Attention::sum(TensorId x, TensorId y, const std::string& name) {
  const TensorId both = f_.tensor(rows() * own_keys_width(), name);
  f_.emit(Part::InputGrad, KernelKind::Add, {{rows(), own_keys_width()}, {}, {x, y, {}}, {both}});
  return both;
}

Attention::Share Attention::share_of_qkv() const {
  return {own_width(), own_keys_width() / 2, own_keys_width() / 2};
}

TensorId Attention::to_heads(Part part, TensorId x, const Share& share, const std::string& name) {
  const std::int64_t elements = rows() * share.cols();
  const TensorId sent = f_.tensor(elements, name + ".heads_sent");
  regroup(part, shape_.rows(), sharers(), share, false, 0, x, sent);
  const TensorId slices = f_.tensor(elements, name + ".heads");  // [sharers, batch, seq, cols]
  f_.communicate(part, OpKind::AllToAll, heads_axis_, sent, slices);
  if (shape_.batch == 1) return slices;
  const TensorId whole = f_.tensor(elements);
  regroup(part, shape_.batch, sharers(), {shape_.seq * share.cols(), 0, 0}, true, 0, slices, whole);
  return whole;
}

TensorId Attention::to_tokens(Part part, TensorId x, const Share& share, const std::string& name) {
  const std::int64_t elements = rows() * share.cols();
  TensorId sent = x;
  if (shape_.batch > 1) {
    sent = f_.tensor(elements, name + ".tokens_sent");
    regroup(part, shape_.batch, sharers(), {shape_.seq * share.cols(), 0, 0}, false, 0, x, sent);
  }
  const TensorId shares = f_.tensor(elements, name + ".tokens");  // [sharers, batch, seq, cols]
  f_.communicate(part, OpKind::AllToAll, heads_axis_, sent, shares);
  const TensorId all = f_.tensor(elements);
  regroup(part, shape_.rows(), sharers(), share, true, 0, shares, all);
  return all;
}

TensorId Attention::gather_keys(Part part, const std::string& name) {
  const TensorId all = f_.tensor(parts() * rows() * own_keys_width(), name);
  f_.communicate(part, OpKind::AllGather, keys_axis_, keys_, all);
  return all;
}

void Attention::regroup(Part part, std::int64_t rows, std::int64_t parts, const Share& share,
                        bool inverse, std::int64_t skip, TensorId x, TensorId y) {
  f_.emit(part, KernelKind::Regroup,
          {{rows, parts, share.q, share.k, share.v, inverse, skip}, {}, {x}, {y}});
}

/// Rotates queries and keys by the angles of their positions.
void Attention::rope(Part part, TensorId qkv, bool inverse) {
  if (!spec_.is_rotary()) return;
  const std::vector<std::int64_t> d = dims();
  const bool local = shape_.local && spec_.local_rope_theta > 0;
  const double theta = local ? spec_.local_rope_theta : spec_.rope_theta;
  const RopeScaling rope = local ? RopeScaling{} : spec_.rope_scaling;
  const std::int64_t rotated = spec_.rotary_dim(), rest = d[4] - rotated;
  const std::int64_t skip = spec_.is_latent() ? rest : 0;
  f_.emit(part, KernelKind::Rope,
          {{d[0], d[1], d[2] + d[3], rotated, d[2] + 2 * d[3], inverse, skip, rest - skip},
           {theta, rope.slowing(), rope.longest(), rope.shortest()},
           {qkv, starts_.empty() ? TensorId{} : starts_[0]},
           {qkv}});
}

/// If tokens are exchanged for heads, a rank has those of
/// all ranks that it exchanges with, and a share of the heads.
std::vector<std::int64_t> Attention::dims(int turn) const {
  return {shape_.batch,       sharers() * shape_.seq,
          heads_ / sharers(), kv_heads_ / sharers(),
          spec_.head_dim,     shape_.passes_keys ? 1 : shape_.gathers_keys ? parts() : 0,
          scores(turn),       !spec_.is_causal()};
}

/// The scores of one sequence and head that a rank computes with the keys of that turn, as expected
/// on average over all ranks; 0 without documents or a window.
std::int64_t Attention::scores(int turn) const {
  if (!documents_.valid()) return 0;
  const auto expected = [&](std::int64_t count, std::int64_t ahead = 0) {
    if (window_ > 0) return window_scores(window_, count, ahead);
    const double mean = shape_.mean_document;
    return spec_.is_causal() ? expected_scores(mean, count, ahead)
                             : expected_whole_scores(mean, count, ahead);
  };
  const std::int64_t own = sharers() * shape_.seq, ranks = parts();
  double all = 0;
  if (!shape_.passes_keys) {
    all = expected(ranks * own);  // of all ranks together
  } else {
    const std::int64_t piece = own / 2;
    const auto pieces = [&](std::int64_t rank) { return std::array{rank, 2 * ranks - 1 - rank}; };
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (const std::int64_t query : pieces(rank)) {
        for (const std::int64_t key : pieces((rank + ranks - turn) % ranks)) {
          all += expected(piece, (query - key) * piece);
        }
      }
    }
  }
  return std::max<std::int64_t>(1, std::llround(all / static_cast<double>(ranks)));
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
  const auto scope = f_.within(ForwardPart::InnerNorm);
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
