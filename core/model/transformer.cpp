// Decoder transformers of the GPT-2 kind (Radford et al. 2019) and the Llama kind (Touvron et al.
// 2023). Weights are stored [out, in], as in torch.nn.Linear; query, key and value projections are
// one matrix, and so are gate and up projection.
#include <cmath>

#include "core/model/model.hpp"

namespace lockstep {
namespace {

/// A unit under construction: declares parameters and hands out their tensors.
class UnitBuilder {
 public:
  UnitBuilder(UnitLayout& unit, std::string prefix) : unit_(unit), prefix_(std::move(prefix)) {}
  void add(const std::string& name, std::vector<std::int64_t> shape, InitKind init,
           double scale = 0) {
    Parameter parameter{prefix_ + name, std::move(shape), init, scale};
    unit_.offsets.push_back(unit_.elements);
    unit_.elements += parameter.elements();
    unit_.parameters.push_back(std::move(parameter));
  }

 private:
  UnitLayout& unit_;
  std::string prefix_;
};

/// Tensors of the parameters of a unit, by position, in "w" and "gw" (or "w_tied", "gw_tied").
struct UnitTensors {
  std::vector<TensorId> w, g;
  UnitTensors(FunctionBuilder& f, const UnitLayout& unit, const LayerShape& shape,
              const std::string& suffix = "") {
    const std::int64_t padded = unit.padded(shape.shard_count);
    for (std::size_t i = 0; i < unit.parameters.size(); ++i) {
      const std::int64_t elements = unit.parameters[i].elements();
      w.push_back(f.inside("w" + suffix, unit.offsets[i], elements, unit.elements));
      g.push_back(f.inside("gw" + suffix, unit.offsets[i], elements, padded));
    }
  }
};

struct Sizes {
  const ModelSpec& spec;
  const LayerShape& shape;
  std::int64_t rows() const { return shape.rows(); }
  std::int64_t hidden() const { return spec.hidden; }
  std::int64_t attention() const { return spec.heads * spec.head_dim; }
  std::int64_t qkv() const { return (spec.heads + 2 * spec.kv_heads) * spec.head_dim; }
};

bool is_gpt2(const ModelSpec& spec) { return spec.architecture == Architecture::Gpt2; }

/// Standard deviation of the projections that write to the residual stream (GPT-2: 1/sqrt(2L)).
double residual_scale(const ModelSpec& spec) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

void add_norm(UnitBuilder& unit, const ModelSpec& spec, const std::string& name) {
  unit.add(name + ".weight", {spec.hidden}, InitKind::Ones);
  if (is_gpt2(spec)) unit.add(name + ".bias", {spec.hidden}, InitKind::Zeros);
}

/// A norm over rows of `hidden`: forward now, backward when the gradient of its output is known.
class Norm {
 public:
  Norm(FunctionBuilder& f, const Sizes& s, const UnitTensors& u, std::size_t index, TensorId x,
       TensorId y)
      : f_(f), s_(s), x_(x), layer_norm_(is_gpt2(s.spec)) {
    w_ = u.w[index];
    gw_ = u.g[index];
    if (layer_norm_) {
      b_ = u.w[index + 1];
      gb_ = u.g[index + 1];
    }
    stats_ = f.tensor(s.rows() * (layer_norm_ ? 2 : 1));
    const std::vector<std::int64_t> dims = {s.rows(), s.hidden()};
    if (layer_norm_) {
      f.emit(Part::Forward, KernelKind::LayerNormForward,
             {dims, {s.spec.norm_eps}, {x, w_, b_}, {y, stats_}});
    } else {
      f.emit(Part::Forward, KernelKind::RmsNormForward,
             {dims, {s.spec.norm_eps}, {x, w_}, {y, stats_}});
    }
  }
  /// dx = residual + gradient through the norm.
  void backward(TensorId dy, TensorId residual, TensorId dx) {
    const std::vector<std::int64_t> dims = {s_.rows(), s_.hidden()};
    if (layer_norm_) {
      f_.emit(Part::InputGrad, KernelKind::LayerNormBackwardInput,
              {dims, {}, {dy, x_, w_, stats_, residual}, {dx}});
      f_.emit(Part::WeightGrad, KernelKind::LayerNormBackwardWeight,
              {dims, {}, {dy, x_, stats_}, {gw_, gb_}});
    } else {
      f_.emit(Part::InputGrad, KernelKind::RmsNormBackwardInput,
              {dims, {}, {dy, x_, w_, stats_, residual}, {dx}});
      f_.emit(Part::WeightGrad, KernelKind::RmsNormBackwardWeight,
              {dims, {}, {dy, x_, stats_}, {gw_}});
    }
  }
  static std::size_t parameters(const ModelSpec& spec) { return is_gpt2(spec) ? 2 : 1; }

 private:
  FunctionBuilder& f_;
  const Sizes s_;
  TensorId x_, w_, b_, gw_, gb_, stats_;
  bool layer_norm_;
};

void declare_block(UnitBuilder& unit, const ModelSpec& spec) {
  const std::int64_t c = spec.hidden;
  const std::int64_t qkv = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  const std::int64_t attention = spec.heads * spec.head_dim;
  const double residual = residual_scale(spec);
  if (is_gpt2(spec)) {
    add_norm(unit, spec, "ln1");
    unit.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02);
    unit.add("attn.bqkv", {qkv}, InitKind::Zeros);
    unit.add("attn.wo", {c, attention}, InitKind::Normal, residual);
    unit.add("attn.bo", {c}, InitKind::Zeros);
    add_norm(unit, spec, "ln2");
    unit.add("mlp.wfc", {spec.ffn_hidden, c}, InitKind::Normal, 0.02);
    unit.add("mlp.bfc", {spec.ffn_hidden}, InitKind::Zeros);
    unit.add("mlp.wproj", {c, spec.ffn_hidden}, InitKind::Normal, residual);
    unit.add("mlp.bproj", {c}, InitKind::Zeros);
  } else {
    add_norm(unit, spec, "norm1");
    unit.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02);
    unit.add("attn.wo", {c, attention}, InitKind::Normal, residual);
    add_norm(unit, spec, "norm2");
    unit.add("mlp.w13", {2 * spec.ffn_hidden, c}, InitKind::Normal, 0.02);
    unit.add("mlp.w2", {c, spec.ffn_hidden}, InitKind::Normal, residual);
  }
}

LayerKind block_kind(const ModelSpec& spec, const LayerShape& shape, const UnitLayout& unit) {
  FunctionBuilder f("block", shape.dtype);
  const Sizes s{spec, shape};
  const UnitTensors u(f, unit, shape);
  const bool gpt2 = is_gpt2(spec);
  const std::int64_t n = s.rows();
  const std::int64_t c = s.hidden();
  const std::int64_t ffn = spec.ffn_hidden;
  const std::int64_t up = gpt2 ? ffn : 2 * ffn;
  // Positions of the parameters in declare_block.
  const std::size_t qkv_at = Norm::parameters(spec);
  const std::size_t bias = gpt2 ? 1 : 0;
  const std::size_t wo_at = qkv_at + 1 + bias;
  const std::size_t norm2_at = wo_at + 1 + bias;
  const std::size_t up_at = norm2_at + Norm::parameters(spec);
  const std::size_t down_at = up_at + 1 + bias;
  const auto w = [&](std::size_t i) { return u.w[i]; };
  const auto b = [&](std::size_t i) { return gpt2 ? u.w[i + 1] : TensorId{}; };
  const auto gb = [&](std::size_t i) { return gpt2 ? u.g[i + 1] : TensorId{}; };

  const TensorId x = f.formal("x", n * c);
  const TensorId y = f.formal("y", n * c);
  const std::vector<std::int64_t> heads = {shape.batch, shape.seq, spec.heads, spec.kv_heads,
                                           spec.head_dim};
  const auto rope = [&](Part part, TensorId t, std::int64_t inverse) {
    if (gpt2) return;
    f.emit(part, KernelKind::Rope,
           {{shape.batch, shape.seq, spec.heads + spec.kv_heads, spec.head_dim,
             spec.heads + 2 * spec.kv_heads, inverse},
            {spec.rope_theta},
            {t},
            {t}});
  };

  const TensorId h1 = f.tensor(n * c);
  Norm norm1(f, s, u, 0, x, h1);
  const TensorId qkv = f.tensor(n * s.qkv());
  f.linear_forward(n, c, s.qkv(), h1, w(qkv_at), b(qkv_at), {}, qkv);
  rope(Part::Forward, qkv, 0);
  const TensorId att = f.tensor(n * s.attention());
  const TensorId lse = f.tensor(n * spec.heads);
  f.emit(Part::Forward, KernelKind::AttentionForward, {heads, {}, {qkv}, {att, lse}});
  const TensorId x1 = f.tensor(n * c);
  f.linear_forward(n, s.attention(), c, att, w(wo_at), b(wo_at), x, x1);
  const TensorId h2 = f.tensor(n * c);
  Norm norm2(f, s, u, norm2_at, x1, h2);
  const TensorId pre = f.tensor(n * up);
  f.linear_forward(n, c, up, h2, w(up_at), b(up_at), {}, pre);
  const TensorId act = f.tensor(n * ffn);
  if (gpt2) {
    f.emit(Part::Forward, KernelKind::GeluForward, {{n * ffn}, {}, {pre}, {act}});
  } else {
    f.emit(Part::Forward, KernelKind::SwigluForward, {{n, ffn}, {}, {pre}, {act}});
  }
  f.linear_forward(n, ffn, c, act, w(down_at), b(down_at), x1, y);

  const TensorId dy = f.formal("dy", n * c);
  const TensorId dx = f.formal("dx", n * c);
  const TensorId dact = f.tensor(n * ffn);
  f.linear_backward(n, ffn, c, dy, act, w(down_at), dact, u.g[down_at], gb(down_at));
  const TensorId dpre = gpt2 ? dact : f.tensor(n * up);
  if (gpt2) {
    f.emit(Part::InputGrad, KernelKind::GeluBackward, {{n * ffn}, {}, {dact, pre}, {dpre}});
  } else {
    f.emit(Part::InputGrad, KernelKind::SwigluBackward, {{n, ffn}, {}, {dact, pre}, {dpre}});
  }
  const TensorId dh2 = f.tensor(n * c);
  f.linear_backward(n, c, up, dpre, h2, w(up_at), dh2, u.g[up_at], gb(up_at));
  const TensorId dx1 = f.tensor(n * c);
  norm2.backward(dh2, dy, dx1);
  const TensorId datt = f.tensor(n * s.attention());
  f.linear_backward(n, s.attention(), c, dx1, att, w(wo_at), datt, u.g[wo_at], gb(wo_at));
  const TensorId dqkv = f.tensor(n * s.qkv());
  f.emit(Part::InputGrad, KernelKind::AttentionBackward,
         {heads, {}, {qkv, att, lse, datt}, {dqkv}});
  rope(Part::InputGrad, dqkv, 1);
  const TensorId dh1 = f.tensor(n * c);
  f.linear_backward(n, c, s.qkv(), dqkv, h1, w(qkv_at), dh1, u.g[qkv_at], gb(qkv_at));
  norm1.backward(dh1, dx1, dx);
  f.set_padding("gw", unit.elements, unit.padded(shape.shard_count) - unit.elements);
  return {std::move(f), true, true};
}

LayerKind embedding_kind(const ModelSpec& spec, const LayerShape& shape, const UnitLayout* own,
                         const UnitLayout* tied) {
  FunctionBuilder f("embed", shape.dtype);
  const std::int64_t n = shape.rows();
  const std::int64_t c = spec.hidden;
  const TensorId tokens = f.formal("tokens", n, DType::I32);
  const TensorId y = f.formal("y", n * c);
  const TensorId dy = f.formal("dy", n * c);
  TensorId table, dtable, positions, dpositions;
  std::int64_t position_at = 0;
  if (tied != nullptr) {
    const UnitTensors t(f, *tied, shape, "_tied");
    table = t.w[0];
    dtable = t.g[0];
    f.set_padding("gw_tied", tied->elements, tied->padded(shape.shard_count) - tied->elements);
  }
  if (own != nullptr) {
    const UnitTensors t(f, *own, shape);
    if (tied == nullptr) {
      table = t.w[0];
      dtable = t.g[0];
    }
    if (is_gpt2(spec)) {
      positions = t.w.back();
      position_at = own->offsets.back();
      // Positions beyond the sequence get no gradient: zeroed with the padding behind them.
      dpositions = f.inside("gw", position_at, shape.seq * c, own->padded(shape.shard_count));
    }
    const std::int64_t used = positions.valid() ? position_at + shape.seq * c : own->elements;
    f.set_padding("gw", used, own->padded(shape.shard_count) - used);
  }
  f.emit(Part::Forward, KernelKind::EmbeddingForward,
         {{n, c, shape.seq, spec.vocab}, {}, {tokens, table, positions}, {y}});
  f.emit(Part::WeightGrad, KernelKind::EmbeddingBackward,
         {{n, c, shape.seq, spec.vocab}, {}, {tokens, dy}, {dtable, {}}});
  if (dpositions.valid()) {
    f.emit(Part::WeightGrad, KernelKind::ColumnSum,
           {{shape.batch, shape.seq * c}, {}, {dy}, {dpositions}});
  }
  return {std::move(f), false, true};
}

LayerKind head_kind(const ModelSpec& spec, const LayerShape& shape, const UnitLayout& own,
                    const UnitLayout* tied) {
  FunctionBuilder f("head", shape.dtype);
  const Sizes s{spec, shape};
  const std::int64_t n = s.rows();
  const std::int64_t c = s.hidden();
  const UnitTensors u(f, own, shape);
  TensorId w = u.w.back();
  TensorId gw = u.g.back();
  if (tied != nullptr) {
    const UnitTensors t(f, *tied, shape, "_tied");
    w = t.w[0];
    gw = t.g[0];
    f.set_padding("gw_tied", tied->elements, tied->padded(shape.shard_count) - tied->elements);
  }
  f.set_padding("gw", own.elements, own.padded(shape.shard_count) - own.elements);
  const TensorId x = f.formal("x", n * c);
  const TensorId targets = f.formal("targets", n, DType::I32);
  const TensorId loss = f.formal("loss", 1);
  const TensorId h = f.tensor(n * c);
  Norm norm(f, s, u, 0, x, h);
  const TensorId logits = f.tensor(n * spec.vocab);  // becomes its own gradient in place
  f.linear_forward(n, c, spec.vocab, h, w, {}, {}, logits);
  f.emit(Part::Forward, KernelKind::CrossEntropy,
         {{n, spec.vocab}, {shape.loss_scale}, {logits, targets}, {logits, loss}});

  const TensorId dx = f.formal("dx", n * c);
  const TensorId dh = f.tensor(n * c);
  f.linear_backward(n, c, spec.vocab, logits, h, w, dh, gw, {});
  norm.backward(dh, {}, dx);
  return {std::move(f), true, false};
}

}  // namespace

Model build_transformer(const ModelSpec& spec, const LayerShape& shape) {
  Model model;
  model.hidden_bytes = shape.rows() * spec.hidden * size_of(shape.dtype);
  const auto new_unit = [&](std::string name) {
    model.units.push_back({});
    model.units.back().name = std::move(name);
    return static_cast<int>(model.units.size()) - 1;
  };
  const auto unit = [&](int index) { return &model.units[static_cast<std::size_t>(index)]; };
  const auto add_layer = [&](std::string name, int kind, int own, bool tied) {
    Layer layer;
    layer.name = std::move(name);
    layer.kind = kind;
    layer.unit = own;
    layer.uses_tied = tied;
    layer.forward_flops =
        work(model.kinds[static_cast<std::size_t>(kind)].functions.forward()).flops;
    layer.balance = layer.forward_flops.v;
    model.layers.push_back(std::move(layer));
  };
  const bool gpt2 = is_gpt2(spec);

  if (spec.tied_embeddings) {
    model.tied_unit = new_unit("tied");
    UnitBuilder(*unit(model.tied_unit), "embed.")
        .add("wte", {spec.vocab, spec.hidden}, InitKind::Normal, 0.02);
  }
  int embed_unit = -1;
  if (!spec.tied_embeddings || gpt2) {
    embed_unit = new_unit("embed");
    UnitBuilder builder(*unit(embed_unit), "embed.");
    if (!spec.tied_embeddings) {
      builder.add("wte", {spec.vocab, spec.hidden}, InitKind::Normal, 0.02);
    }
    if (gpt2) builder.add("wpe", {spec.max_seq_len, spec.hidden}, InitKind::Normal, 0.01);
  }
  const auto tied = [&] { return model.tied_unit < 0 ? nullptr : unit(model.tied_unit); };
  model.kinds.push_back(
      embedding_kind(spec, shape, embed_unit < 0 ? nullptr : unit(embed_unit), tied()));
  add_layer("embed", 0, embed_unit, spec.tied_embeddings);

  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    const int own = new_unit(name);
    UnitBuilder builder(*unit(own), name + ".");
    declare_block(builder, spec);
    if (i == 0) model.kinds.push_back(block_kind(spec, shape, *unit(own)));
    add_layer(name, 1, own, false);
  }

  const int head_unit = new_unit("head");
  UnitBuilder builder(*unit(head_unit), "head.");
  add_norm(builder, spec, "norm");
  if (!spec.tied_embeddings) {
    builder.add("lm_head", {spec.vocab, spec.hidden}, InitKind::Normal, 0.02);
  }
  model.kinds.push_back(head_kind(spec, shape, *unit(head_unit), tied()));
  add_layer("head", 2, head_unit, spec.tied_embeddings);
  return model;
}

}  // namespace lockstep
