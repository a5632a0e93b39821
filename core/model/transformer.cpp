// Decoder transformers of the GPT-2 kind (Radford et al. 2019) and the Llama kind (Touvron et al.
// 2023). Weights are stored [out, in], as in torch.nn.Linear; query, key and value projections are
// one matrix, and so are gate and up projection.
#include <cmath>

#include "core/model/layer_parameters.hpp"
#include "core/model/model.hpp"

namespace lockstep {
namespace {

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

void add_norm(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name) {
  layer.add(name + ".weight", {spec.hidden}, InitKind::Ones);
  if (is_gpt2(spec)) layer.add(name + ".bias", {spec.hidden}, InitKind::Zeros);
}

/// A norm over rows of `hidden`: forward now, backward when the gradient of its output is known.
class Norm {
 public:
  Norm(FunctionBuilder& f, const Sizes& s, const LayerTensors& p, const std::string& name,
       TensorId x, TensorId y)
      : f_(f),
        s_(s),
        x_(x),
        w_(p.w(name + ".weight")),
        b_(p.w(name + ".bias")),
        gw_(p.g(name + ".weight")),
        gb_(p.g(name + ".bias")),
        layer_norm_(is_gpt2(s.spec)) {
    stats_ = f.tensor(s.rows() * (layer_norm_ ? 2 : 1), sum_type(s.shape.dtype));
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

 private:
  FunctionBuilder& f_;
  const Sizes s_;
  TensorId x_, w_, b_, gw_, gb_, stats_;
  bool layer_norm_;
};

void declare_block(LayerDeclaration& layer, const ModelSpec& spec) {
  const std::int64_t c = spec.hidden;
  const std::int64_t qkv = (spec.heads + 2 * spec.kv_heads) * spec.head_dim;
  const std::int64_t attention = spec.heads * spec.head_dim;
  const double residual = residual_scale(spec);
  if (is_gpt2(spec)) {
    add_norm(layer, spec, "ln1");
    layer.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02);
    layer.add("attn.bqkv", {qkv}, InitKind::Zeros);
    layer.add("attn.wo", {c, attention}, InitKind::Normal, residual);
    layer.add("attn.bo", {c}, InitKind::Zeros);
    add_norm(layer, spec, "ln2");
    layer.add("mlp.wfc", {spec.ffn_hidden, c}, InitKind::Normal, 0.02);
    layer.add("mlp.bfc", {spec.ffn_hidden}, InitKind::Zeros);
    layer.add("mlp.wproj", {c, spec.ffn_hidden}, InitKind::Normal, residual);
    layer.add("mlp.bproj", {c}, InitKind::Zeros);
  } else {
    add_norm(layer, spec, "norm1");
    layer.add("attn.wqkv", {qkv, c}, InitKind::Normal, 0.02);
    layer.add("attn.wo", {c, attention}, InitKind::Normal, residual);
    add_norm(layer, spec, "norm2");
    layer.add("mlp.w13", {2 * spec.ffn_hidden, c}, InitKind::Normal, 0.02);
    layer.add("mlp.w2", {c, spec.ffn_hidden}, InitKind::Normal, residual);
  }
}

LayerKind block_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                     const std::string& name, const std::vector<LayerUnit>& units,
                     const Recompute& recompute) {
  FunctionBuilder f(recompute.any() ? "block_r" : "block", shape.dtype, shape.gradient_dtype);
  const Sizes s{spec, shape};
  const LayerTensors p(f, model, name, units);
  const bool gpt2 = is_gpt2(spec);
  const std::int64_t n = s.rows();
  const std::int64_t c = s.hidden();
  const std::int64_t ffn = spec.ffn_hidden;
  const std::int64_t up = gpt2 ? ffn : 2 * ffn;
  const std::string up_name = gpt2 ? "mlp.wfc" : "mlp.w13";
  const std::string down_name = gpt2 ? "mlp.wproj" : "mlp.w2";

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
  Norm norm1(f, s, p, gpt2 ? "ln1" : "norm1", x, h1);
  const TensorId qkv = f.tensor(n * s.qkv());
  f.linear_forward(n, c, s.qkv(), h1, p.w("attn.wqkv"), p.w("attn.bqkv"), {}, qkv);
  rope(Part::Forward, qkv, 0);
  const TensorId att = f.tensor(n * s.attention());
  const TensorId lse = f.tensor(n * spec.heads, sum_type(shape.dtype));
  f.emit(Part::Forward, KernelKind::AttentionForward, {heads, {}, {qkv}, {att, lse}});
  const TensorId x1 = f.tensor(n * c);
  f.linear_forward(n, s.attention(), c, att, p.w("attn.wo"), p.w("attn.bo"), x, x1);
  const TensorId h2 = f.tensor(n * c);
  Norm norm2(f, s, p, gpt2 ? "ln2" : "norm2", x1, h2);
  const TensorId pre = f.tensor(n * up);
  f.linear_forward(n, c, up, h2, p.w(up_name), p.w("mlp.bfc"), {}, pre);
  const TensorId act = f.tensor(n * ffn);
  if (gpt2) {
    f.emit(Part::Forward, KernelKind::GeluForward, {{n * ffn}, {}, {pre}, {act}});
  } else {
    f.emit(Part::Forward, KernelKind::SwigluForward, {{n, ffn}, {}, {pre}, {act}});
  }
  f.linear_forward(n, ffn, c, act, p.w(down_name), p.w("mlp.bproj"), x1, y);

  const TensorId dy = f.formal("dy", n * c);
  const TensorId dx = f.formal("dx", n * c);
  const TensorId dact = f.tensor(n * ffn);
  f.linear_backward(n, ffn, c, dy, act, p.w(down_name), dact, p.g(down_name), p.g("mlp.bproj"));
  const TensorId dpre = gpt2 ? dact : f.tensor(n * up);
  if (gpt2) {
    f.emit(Part::InputGrad, KernelKind::GeluBackward, {{n * ffn}, {}, {dact, pre}, {dpre}});
  } else {
    f.emit(Part::InputGrad, KernelKind::SwigluBackward, {{n, ffn}, {}, {dact, pre}, {dpre}});
  }
  const TensorId dh2 = f.tensor(n * c);
  f.linear_backward(n, c, up, dpre, h2, p.w(up_name), dh2, p.g(up_name), p.g("mlp.bfc"));
  const TensorId dx1 = f.tensor(n * c);
  norm2.backward(dh2, dy, dx1);
  const TensorId datt = f.tensor(n * s.attention());
  f.linear_backward(n, s.attention(), c, dx1, att, p.w("attn.wo"), datt, p.g("attn.wo"),
                    p.g("attn.bo"));
  const TensorId dqkv = f.tensor(n * s.qkv());
  f.emit(Part::InputGrad, KernelKind::AttentionBackward,
         {heads, {}, {qkv, att, lse, datt}, {dqkv}});
  rope(Part::InputGrad, dqkv, 1);
  const TensorId dh1 = f.tensor(n * c);
  f.linear_backward(n, c, s.qkv(), dqkv, h1, p.w("attn.wqkv"), dh1, p.g("attn.wqkv"),
                    p.g("attn.bqkv"));
  norm1.backward(dh1, dx1, dx);
  p.pad(f);
  f.recompute(recompute);
  return {std::move(f), true, true};
}

LayerKind embedding_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                         const std::vector<LayerUnit>& units) {
  FunctionBuilder f("embed", shape.dtype, shape.gradient_dtype);
  const std::int64_t n = shape.rows();
  const std::int64_t c = spec.hidden;
  const LayerTensors p(f, model, "embed", units);
  const TensorId tokens = f.formal("tokens", n, DType::I32);
  const TensorId y = f.formal("y", n * c);
  const TensorId dy = f.formal("dy", n * c);
  const TensorId table = p.w("wte");
  const TensorId dtable = p.g("wte");
  const TensorId positions = p.w("wpe");
  TensorId dpositions;
  if (positions.valid()) {
    // Positions beyond the sequence get no gradient: zeroed with the padding behind them.
    const UnitLayout& own = model.units[static_cast<std::size_t>(units.front().unit)];
    const std::int64_t begin = own.offsets.back();
    dpositions = f.inside("gw", begin, shape.seq * c, own.padded());
    p.pad(f, begin + shape.seq * c);
  } else {
    p.pad(f);
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

LayerKind head_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                    const std::vector<LayerUnit>& units) {
  FunctionBuilder f("head", shape.dtype, shape.gradient_dtype);
  const Sizes s{spec, shape};
  const std::int64_t n = s.rows();
  const std::int64_t c = s.hidden();
  const LayerTensors p(f, model, "head", units);
  p.pad(f);
  const std::string output = spec.tied_embeddings ? "embed.wte" : "lm_head";
  const TensorId w = p.w(output);
  const TensorId gw = p.g(output);
  const TensorId x = f.formal("x", n * c);
  const TensorId targets = f.formal("targets", n, DType::I32);
  const TensorId loss = f.formal("loss", 1, sum_type(shape.dtype));
  const TensorId h = f.tensor(n * c);
  Norm norm(f, s, p, "norm", x, h);
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
  const auto add_layer = [&](const std::string& name, int kind, std::vector<LayerUnit> units) {
    Layer layer;
    layer.name = name;
    layer.kind = kind;
    layer.units = std::move(units);
    layer.output_bytes = shape.rows() * spec.hidden * size_of(shape.dtype);
    const bool known = !model.layers.empty() && model.layers.back().kind == kind;
    layer.forward_flops =
        known ? model.layers.back().forward_flops
              : work(model.kinds[static_cast<std::size_t>(kind)].functions.forward()).flops;
    layer.balance = layer.forward_flops.v;
    model.layers.push_back(std::move(layer));
  };
  const auto add_embedding = [&](LayerDeclaration& layer) {
    layer.add("wte", {spec.vocab, spec.hidden}, InitKind::Normal, 0.02);
  };

  std::vector<LayerUnit> tied;
  if (spec.tied_embeddings) {
    LayerDeclaration shared(model, shape, "embed");
    add_embedding(shared);
    model.tied_unit = shared.units().front().unit;
    model.units.back().name = "tied";
    tied = {{model.tied_unit, "_tied"}};
  }
  LayerDeclaration embed(model, shape, "embed");
  if (!spec.tied_embeddings) add_embedding(embed);
  if (is_gpt2(spec)) {
    embed.add("wpe", {spec.max_seq_len, spec.hidden}, InitKind::Normal, 0.01);
  }
  std::vector<LayerUnit> units = embed.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(embedding_kind(spec, shape, model, units));
  add_layer("embed", 0, units);

  int plain = -1, recomputing = -1;  // kinds of blocks
  for (std::int64_t i = 0; i < spec.layers; ++i) {
    const std::string name = "blocks." + std::to_string(i);
    LayerDeclaration block(model, shape, name);
    declare_block(block, spec);
    const Recompute recompute = shape.checkpoint.of_block(i).value_or(Recompute{});
    int& kind = recompute.any() ? recomputing : plain;  // blocks of each sort share functions
    if (kind < 0) {
      kind = static_cast<int>(model.kinds.size());
      model.kinds.push_back(block_kind(spec, shape, model, name, block.units(), recompute));
    }
    add_layer(name, kind, block.units());
  }

  LayerDeclaration head(model, shape, "head");
  add_norm(head, spec, "norm");
  if (!spec.tied_embeddings) {
    head.add("lm_head", {spec.vocab, spec.hidden}, InitKind::Normal, 0.02);
  }
  units = head.units();
  units.insert(units.end(), tied.begin(), tied.end());
  model.kinds.push_back(head_kind(spec, shape, model, units));
  add_layer("head", static_cast<int>(model.kinds.size()) - 1, units);
  return model;
}

}  // namespace lockstep
