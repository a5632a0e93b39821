// The two ends of a transformer: the embedding, and the output layer with the loss. The vocabulary
// is divided over the ranks of "tp" (Shoeybi et al. 2019); logits are never gathered. The host
// gives ids relative to a rank's part of the vocabulary, so that kernels need not know which part
// it is.
//
// The ranks of "pp" may divide it, too (Yeung et al. 2024, Balancing Pipeline Parallelism with
// Vocabulary Parallelism, algorithm 1: the softmax needs one meeting of all ranks, the gradient of
// the output layer's input another). The output layer's forward pass, S in the paper, then ends
// with the statistics of a rank's own logits, and its backward pass, T, begins with those of all.
// Positions and norm are not divided. They are layers of their own then, on the first and the last
// stage, so that no rank waits in its part for the parts of others.
#include <algorithm>
#include <optional>
#include <tuple>
#include <utility>

#include "core/model/dropout.hpp"
#include "core/model/tensor_parallel.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_table(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name) {
  layer.add(name, {spec.vocab, spec.hidden}, InitKind::Normal, 0.02, {0, {spec.vocab}});
}

void declare_positions(LayerDeclaration& layer, const ModelSpec& spec) {
  if (!spec.learns_positions()) return;
  layer.add("wpe", {spec.max_seq_len, spec.hidden}, InitKind::Normal, 0.01);
}

void declare_embedding_end(LayerDeclaration& layer, const ModelSpec& spec) {
  if (spec.token_types > 0) {
    layer.add("wtt", {spec.token_types, spec.hidden}, InitKind::Normal, 0.02);
  }
  if (spec.embedding_norm) declare_norm(layer, spec, "norm", spec.hidden);
}

void declare_head_begin(LayerDeclaration& layer, const ModelSpec& spec) {
  if (spec.head_transform) {
    layer.add("transform.weight", {spec.hidden, spec.hidden}, InitKind::Normal, 0.02);
    layer.add("transform.bias", {spec.hidden}, InitKind::Zeros);
    layer.add("bias", {spec.vocab}, InitKind::Zeros, 0, {0, {spec.vocab}});
  }
  if (spec.norms_head()) declare_norm(layer, spec, "norm", spec.hidden);
}

namespace {

/// The formal that the host fills with the rows of learned positions.
const char* position_ids(const LayerShape& shape) {
  return shape.resets_positions ? "document_positions" : "positions";
}

/// What follows the sum of a token's rows: a factor, the row of the first segment, a norm, and
/// dropout.
class EmbeddingEnd {
 public:
  EmbeddingEnd(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape,
               const LayerTensors& p)
      : f_(f),
        spec_(spec),
        shape_(shape),
        p_(p),
        rows_(shape.own_rows()),
        dropout_(f, shape.embedding_dropout, DropoutPlace::Embedding, rows_, spec.hidden) {
    if (spec.token_types > 0) type_ = p.first(f, "wtt", spec.hidden);  // no token is of another
  }

  /// The sum, which becomes `y`: `y` itself if nothing follows.
  TensorId sum(TensorId y) {
    const bool last = !dropout_.active() && !spec_.embedding_norm && spec_.token_types == 0;
    return last && !scales() ? y : f_.tensor(rows_ * spec_.hidden, "embedded");
  }
  void forward(TensorId sum, TensorId y) {
    TensorId x = sum;
    const auto next = [&](bool last) { return last ? y : f_.tensor(rows_ * spec_.hidden); };
    if (scales()) {
      const TensorId scaled =
          next(!dropout_.active() && !spec_.embedding_norm && spec_.token_types == 0);
      scale(Part::Forward, x, scaled);
      x = scaled;
    }
    if (spec_.token_types > 0) {
      const TensorId typed = next(!dropout_.active() && !spec_.embedding_norm);
      f_.emit(Part::Forward, KernelKind::Add,
              {{rows_, spec_.hidden}, {}, {x, {}, type_.w}, {typed}});
      x = typed;
    }
    if (spec_.embedding_norm) {
      const TensorId normed = next(!dropout_.active());
      norm_.emplace(f_, spec_, shape_.dtype, rows_, spec_.hidden, p_, "norm", x, normed);
      x = normed;
    }
    if (dropout_.active()) dropout_.forward(x, {}, {}, y);
  }
  /// The gradient of the scaled sum, given that of `y`. All of an embedding's backward pass is W.
  TensorId backward(TensorId dy) {
    TensorId d = dropout_.backward(Part::WeightGrad, dy, "dembedded");
    if (norm_) {
      const TensorId d_normed = d;
      d = f_.tensor(rows_ * spec_.hidden, "dnorm");
      norm_->backward(d_normed, {}, d, Part::WeightGrad);
    }
    if (spec_.token_types > 0) {
      f_.emit(Part::WeightGrad, KernelKind::ColumnSum, {{rows_, spec_.hidden}, {}, {d}, {type_.g}});
    }
    return d;
  }
  /// The gradient of the sum, given that of the scaled one.
  TensorId through_factor(TensorId d) {
    if (!scales()) return d;
    const TensorId d_sum = f_.tensor(rows_ * spec_.hidden, "dscaled");
    scale(Part::WeightGrad, d, d_sum);
    return d_sum;
  }

 private:
  bool scales() const { return spec_.embedding_multiplier != 1; }
  void scale(Part part, TensorId x, TensorId y) {
    f_.emit(part, KernelKind::Scale,
            {{rows_ * spec_.hidden}, {spec_.embedding_multiplier}, {x}, {y}});
  }

  FunctionBuilder& f_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  const LayerTensors& p_;
  std::int64_t rows_;
  Dropout dropout_;
  LayerTensors::First type_;
  std::optional<Norm> norm_;
};

}  // namespace

LayerKind embedding_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                         const std::vector<LayerUnit>& units) {
  FunctionBuilder f("embed", shape.dtype, shape.gradient_dtype);
  TensorParallel tp(f, shape, shape.vocabulary_stages);
  const std::int64_t n = tp.rows();
  const std::int64_t own = tp.own_rows();
  const std::int64_t c = spec.hidden;
  const std::int64_t vocab = ceil_div(spec.vocab, shape.vocabulary_parts());
  const LayerTensors p(f, model, "embed", units);
  const TensorId tokens = f.formal("tokens", n, DType::I32);
  EmbeddingEnd end(f, spec, shape, p);
  const TensorId result = f.formal("y", own * c);
  const TensorId d_result = f.formal("dy", own * c);
  const TensorId y = end.sum(result);
  const TensorId positions = p.w("wpe");
  const bool learns_positions = p.g("wpe").valid();
  if (tp.active() || shape.context_parallel > 1 || shape.resets_positions) {
    // Rows of tokens whose ids belong to other ranks are zero. A rank adds the positions of its own
    // rows, whose ids also come from the host.
    const TensorId sum = positions.valid() ? f.tensor(own * c, "sum") : y;
    const TensorId partial = tp.partial(sum, c, "rows");
    f.emit(Part::Forward, KernelKind::EmbeddingForward,
           {{n, c, n, vocab}, {}, {tokens, p.w("wte"), {}}, {partial}});
    tp.sum(Part::Forward, partial, sum);
    TensorId ids;
    if (positions.valid()) {
      ids = f.formal(position_ids(shape), own, DType::I32);
      f.emit(Part::Forward, KernelKind::EmbeddingForward,
             {{own, c, own, spec.max_seq_len}, {}, {ids, positions, sum}, {y}});
    }
    end.forward(y, result);
    const TensorId d_end = end.backward(d_result);
    if (shape.vocabulary_stages > 1) {  // the first stage has it
      f.communicate(Part::WeightGrad, OpKind::Broadcast, "pp", d_end, d_end);
    }
    const TensorId dy = end.through_factor(d_end);
    const TensorId all = tp.all_rows(Part::WeightGrad, dy, c, "dy_all");
    f.emit(Part::WeightGrad, KernelKind::EmbeddingBackward,
           {{n, c, n, vocab}, {}, {tokens, all}, {p.g("wte"), {}}});
    if (positions.valid()) {
      f.emit(Part::WeightGrad, KernelKind::EmbeddingBackward,
             {{own, c, own, spec.max_seq_len}, {}, {ids, dy}, {p.g("wpe"), {}}});
    }
    p.pad(f);
    if (spec.freezes()) f.drop_unneeded();
    return {std::move(f), false, true};
  }
  f.emit(Part::Forward, KernelKind::EmbeddingForward,
         {{n, c, shape.seq, vocab}, {}, {tokens, p.w("wte"), positions}, {y}});
  end.forward(y, result);
  const TensorId dy = end.through_factor(end.backward(d_result));
  f.emit(Part::WeightGrad, KernelKind::EmbeddingBackward,
         {{n, c, shape.seq, vocab}, {}, {tokens, dy}, {p.g("wte"), {}}});
  if (learns_positions) {
    // Positions beyond the sequence get no gradient. They are zeroed with the padding that follows.
    const auto own_unit = std::find_if(units.begin(), units.end(),
                                       [](const LayerUnit& u) { return u.suffix.empty(); });
    const UnitLayout& unit = model.units[own_unit->unit];
    const std::int64_t begin = unit.offsets.back();
    const TensorId used = f.inside("gw", begin, shape.seq * c, unit.padded());
    f.emit(Part::WeightGrad, KernelKind::ColumnSum,
           {{shape.batch, shape.seq * c}, {}, {dy}, {used}});
    p.pad(f, begin + shape.seq * c);
  } else {
    p.pad(f);
  }
  return {std::move(f), false, true};
}

LayerKind positions_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                         const std::vector<LayerUnit>& units) {
  FunctionBuilder f("positions", shape.dtype, shape.gradient_dtype);
  const std::int64_t own = shape.own_rows(), c = spec.hidden;
  const LayerTensors p(f, model, "embed", units);
  const TensorId ids = f.formal(position_ids(shape), own, DType::I32);
  const TensorId dy = f.formal("dy", own * c);
  f.emit(Part::Forward, KernelKind::EmbeddingForward,
         {{own, c, own, spec.max_seq_len},
          {},
          {ids, p.w("wpe"), f.formal("x", own * c)},
          {f.formal("y", own * c)}});
  f.emit(Part::InputGrad, KernelKind::Regroup,  // a copy
         {{own, 1, c, 0, 0, 0, 0}, {}, {dy}, {f.formal("dx", own * c)}});
  f.emit(Part::WeightGrad, KernelKind::EmbeddingBackward,
         {{own, c, own, spec.max_seq_len}, {}, {ids, dy}, {p.g("wpe"), {}}});
  p.pad(f);
  return {std::move(f), true, true};
}

LayerKind norm_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                    const std::vector<LayerUnit>& units) {
  FunctionBuilder f("norm", shape.dtype, shape.gradient_dtype);
  const std::int64_t elements = shape.own_rows() * spec.hidden;
  const LayerTensors p(f, model, "head", units);
  p.pad(f);
  Norm norm(f, spec, shape.dtype, shape.own_rows(), spec.hidden, p, "norm", f.formal("x", elements),
            f.formal("y", elements));
  norm.backward(f.formal("dy", elements), {}, f.formal("dx", elements));
  return {std::move(f), true, true};
}

namespace {

/// What the loss reads and writes where logits exist for a part of the rows at a time.
struct ChunkedLoss {
  TensorId h, w, b, targets, loss;  // h [rows, hidden]
  TensorId dh, gw, gb;
};

/// Computes the loss and its gradients in the backward pass, chunk by chunk, so that the logits of
/// one lie where those of the one before did (torchtitan's ChunkedCELoss; Hsu et al. 2024, Liger
/// Kernel, fused linear cross entropy). Where the backward pass is split, W needs the gradients of
/// all logits, which are kept for it.
void emit_chunked_loss(FunctionBuilder& f, const ModelSpec& spec, const LayerShape& shape,
                       double loss_scale, const ChunkedLoss& t) {
  const std::int64_t c = spec.hidden, vocab = spec.vocab;
  const std::int64_t rows = shape.rows() / shape.loss_chunks;
  const bool capped = spec.logit_softcap > 0;
  for (int i = 0; i < shape.loss_chunks; ++i) {
    const TensorId h = f.part(t.h, i, shape.loss_chunks);
    const TensorId dh = f.part(t.dh, i, shape.loss_chunks);
    const TensorId targets = f.inside("targets", i * rows, rows, shape.rows(), DType::I32);
    const TensorId raw = f.tensor(rows * vocab);
    f.emit(Part::InputGrad, KernelKind::Gemm,
           {{rows, vocab, c, 0, 1}, {}, {h, t.w, t.b, {}}, {raw}});
    f.keep(rows * vocab * shape.logit_bytes, raw);
    const TensorId logits = capped ? f.tensor(rows * vocab) : raw;
    if (capped) {
      f.emit(Part::InputGrad, KernelKind::SoftcapForward,
             {{rows * vocab}, {spec.logit_softcap}, {raw}, {logits}});
    }
    const bool adds = i > 0;
    f.emit(Part::InputGrad, KernelKind::CrossEntropy,
           {{rows, vocab},
            {loss_scale},
            with_loss_scale(f, shape, {logits, targets}),
            {logits, t.loss},
            adds});
    if (capped) {
      f.emit(Part::InputGrad, KernelKind::SoftcapBackward,
             {{rows * vocab}, {spec.logit_softcap}, {logits, raw}, {logits}});
    }
    f.emit(Part::InputGrad, KernelKind::Gemm,
           {{rows, c, vocab, 0, 0}, {}, {logits, t.w, {}, {}}, {dh}});
    if (t.gw.valid()) {
      f.emit(Part::WeightGrad, KernelKind::Gemm,
             {{vocab, c, rows, 1, 0}, {}, {logits, h, {}, {}}, {t.gw}, adds});
    }
    if (t.gb.valid()) {
      f.emit(Part::WeightGrad, KernelKind::ColumnSum, {{rows, vocab}, {}, {logits}, {t.gb}, adds});
    }
  }
}

}  // namespace

LayerKind head_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                    const std::vector<LayerUnit>& units) {
  FunctionBuilder f("head", shape.dtype, shape.gradient_dtype);
  TensorParallel tp(f, shape, shape.vocabulary_stages);
  const std::int64_t n = tp.rows();
  const std::int64_t own = tp.own_rows();
  const std::int64_t c = spec.hidden;
  const int parts = shape.vocabulary_parts();
  const std::int64_t vocab = ceil_div(spec.vocab, parts);
  const LayerTensors p(f, model, "head", units);
  p.pad(f);
  const std::string output = spec.tied_embeddings ? "embed.wte" : "lm_head";
  ColumnLinear linear(f, tp, "logits", c, vocab,
                      {p.w(output), p.w("bias"), p.g(output), p.g("bias")});
  const LinearTensors transform = p.linear("transform.weight", "transform.bias");
  const TensorId x = f.formal("x", own * c);
  const auto scale = [&](Part part, TensorId from, TensorId to) {
    f.emit(part, KernelKind::Scale, {{own * c}, {spec.logit_multiplier}, {from}, {to}});
    return to;
  };
  // The factor of logits is one of what they are made of, which is smaller.
  const bool scales = spec.logit_multiplier != 1;
  const auto scaled = [&](TensorId h) {
    return scales ? scale(Part::Forward, h, f.tensor(own * c, "h_scaled")) : h;
  };
  const bool capped = spec.logit_softcap > 0;
  const auto cap = [&](TensorId from, TensorId to) {
    f.emit(Part::Forward, KernelKind::SoftcapForward,
           {{n * vocab}, {spec.logit_softcap}, {from}, {to}});
  };
  if (shape.ends_with_logits) {
    const TensorId h = f.tensor(own * c), result = f.formal("logits", n * vocab);
    Norm norm(f, spec, shape.dtype, own, spec.hidden, p, "norm", x, h);
    const TensorId logits = capped ? f.tensor(n * vocab) : result;
    linear.forward(scaled(h), logits);
    if (capped) cap(logits, result);
    return {std::move(f), true, false};
  }
  const TensorId targets = f.formal("targets", n, DType::I32);
  const TensorId loss = f.formal("loss", 1, sum_type(shape.dtype));
  const double loss_scale = shape.loss_scale / shape.target_share;  // 1 / targets of the batch
  const bool over_stages = shape.vocabulary_stages > 1;
  std::optional<Norm> norm;
  TensorId h = x, pre;
  if (over_stages) f.communicate(Part::Forward, OpKind::Broadcast, "pp", x, x);
  if (spec.head_transform) {
    pre = f.tensor(own * c);
    f.linear_forward(own, c, c, x, transform.w, transform.b, {}, pre);
    h = f.tensor(own * c);
    f.emit(Part::Forward, KernelKind::GeluForward, {{own * c}, {}, {pre}, {h}});
  }
  if (spec.norms_head() && !over_stages) {
    const TensorId normed = f.tensor(own * c, "h");
    norm.emplace(f, spec, shape.dtype, own, spec.hidden, p, "norm", h, normed);
    h = normed;
  }
  const auto begin_gradients = [&] {
    const TensorId dx = f.formal("dx", own * c);
    const TensorId dh = norm || spec.head_transform ? f.tensor(own * c, "dh") : dx;
    return std::pair(dx, dh);
  };
  TensorId dx, dh, d_scaled;
  if (shape.loss_chunks > 1) {
    const TensorId read = scaled(h);
    std::tie(dx, dh) = begin_gradients();
    d_scaled = scales ? f.tensor(own * c, "dh_scaled") : dh;
    emit_chunked_loss(
        f, spec, shape, loss_scale,
        {read, p.w(output), p.w("bias"), targets, loss, d_scaled, p.g(output), p.g("bias")});
  } else {
    const TensorId raw = f.tensor(n * vocab);
    linear.forward(scaled(h), raw);
    f.keep(n * vocab * shape.logit_bytes, raw);
    const TensorId logits = capped ? f.tensor(n * vocab) : raw;  // its gradient overwrites it
    if (capped) cap(raw, logits);
    if (tp.active()) {
      // A rank knows, of its part of every row, the largest logit, the sum of exponentials, and the
      // logit of the target if that is there.
      const TensorId columns =
          spec.vocab % parts == 0 ? TensorId{} : f.formal("columns", 1, DType::I32);
      const TensorId stats = f.tensor(3 * n, sum_type(shape.dtype), "stats");
      const TensorId all = f.tensor(3 * n * parts, sum_type(shape.dtype), "stats_all");
      f.emit(Part::Forward, KernelKind::CrossEntropyStats,
             {{n, vocab}, {}, {logits, targets, columns}, {stats}});
      f.communicate(Part::Forward, OpKind::AllGather, over_stages ? "vocabulary" : "tp", stats,
                    all);
      f.emit(over_stages ? Part::InputGrad : Part::Forward, KernelKind::CrossEntropyParallel,
             {{n, vocab, parts},
              {loss_scale},
              with_loss_scale(f, shape, {logits, targets, all, columns}),
              {logits, loss}});
    } else {
      f.emit(
          Part::Forward, KernelKind::CrossEntropy,
          {{n, vocab}, {loss_scale}, with_loss_scale(f, shape, {logits, targets}), {logits, loss}});
    }
    std::tie(dx, dh) = begin_gradients();
    if (capped) {
      f.emit(Part::InputGrad, KernelKind::SoftcapBackward,
             {{n * vocab}, {spec.logit_softcap}, {logits, raw}, {logits}});
    }
    d_scaled = scales ? f.tensor(own * c, "dh_scaled") : dh;
    linear.backward(logits, d_scaled);
  }
  if (scales) scale(Part::InputGrad, d_scaled, dh);
  if (norm) {
    const TensorId d_normed = dh;
    dh = spec.head_transform ? f.tensor(own * c) : dx;
    norm->backward(d_normed, {}, dh);
  }
  if (spec.head_transform) {
    f.emit(Part::InputGrad, KernelKind::GeluBackward, {{own * c}, {}, {dh, pre}, {dh}});
    f.linear_backward(own, c, c, dh, x, transform.w, dx, transform.gw, transform.gb);
  }
  if (spec.freezes()) f.drop_unneeded();
  return {std::move(f), true, false};
}

}  // namespace lockstep
