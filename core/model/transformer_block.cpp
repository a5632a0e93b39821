// The block of a transformer: attention and the feed-forward network, each with a residual around
// it, and with a norm before it or behind the residual.
#include <functional>

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

void Norm::backward(TensorId dy, TensorId residual, TensorId dx, Part part) {
  if (layer_norm_) {
    f_.emit(part, KernelKind::LayerNormBackwardInput,
            {dims_, {}, {dy, x_, w_, stats_, residual}, {dx}});
    f_.emit(Part::WeightGrad, KernelKind::LayerNormBackwardWeight,
            {dims_, {}, {dy, x_, stats_}, {gw_, gb_}});
  } else {
    f_.emit(part, KernelKind::RmsNormBackwardInput,
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

namespace {

/// What both kinds of block are made of.
struct BlockParts {
  FunctionBuilder& f;
  SelfAttention& attention;
  FeedForward& network;
  std::int64_t rows, cols;
  TensorId x, y, dy, dx;
  std::function<Norm(const char* number, TensorId from, TensorId to)> norm;
  TensorId tensor(const char* name = "") const { return f.tensor(rows * cols, name); }
};

/// x1 = x + attention(norm(x)), y = x1 + network(norm(x1))
void emit_with_norms_before(const BlockParts& b) {
  const TensorId h1 = b.tensor("h1");
  Norm norm1 = b.norm("1", b.x, h1);
  const TensorId x1 = b.tensor();
  b.attention.forward(h1, b.x, x1);
  const TensorId h2 = b.tensor("h2");
  Norm norm2 = b.norm("2", x1, h2);
  b.network.forward(h2, x1, b.y);

  const TensorId dh2 = b.tensor("dh2");
  b.network.backward(b.dy, dh2);
  const TensorId dx1 = b.tensor("dx1");
  norm2.backward(dh2, b.dy, dx1);
  const TensorId dh1 = b.tensor("dh1");
  b.attention.backward(dx1, dh1);
  norm1.backward(dh1, dx1, b.dx);
}

/// x1 = norm(x + attention(x)), y = norm(x1 + network(x1))
void emit_with_norms_behind(const BlockParts& b) {
  const TensorId sum1 = b.tensor(), h1 = b.tensor("h1");
  b.attention.forward(b.x, b.x, sum1);
  Norm norm1 = b.norm("1", sum1, h1);
  const TensorId sum2 = b.tensor();
  b.network.forward(h1, h1, sum2);
  Norm norm2 = b.norm("2", sum2, b.y);

  // The gradient of a sum reaches what is added by the residual and through the branch.
  const auto add = [&](TensorId d_sum, TensorId d_branch, TensorId to) {
    b.f.emit(Part::InputGrad, KernelKind::Add, {{b.rows, b.cols}, {}, {d_branch, d_sum}, {to}});
  };
  const TensorId dsum2 = b.tensor("dsum2"), dh2 = b.tensor("dh2");
  norm2.backward(b.dy, {}, dsum2);
  b.network.backward(dsum2, dh2);
  const TensorId dx1 = b.tensor(), dsum1 = b.tensor("dsum1");
  add(dsum2, dh2, dx1);
  norm1.backward(dx1, {}, dsum1);
  const TensorId dh1 = b.tensor("dh1");
  b.attention.backward(dsum1, dh1);
  add(dsum1, dh1, b.dx);
}

}  // namespace

LayerKind block_kind(const ModelSpec& spec, const LayerShape& shape, const Model& model,
                     const std::string& kind, const std::string& name,
                     const std::vector<LayerUnit>& units, bool experts,
                     const Recompute& recompute) {
  FunctionBuilder f(kind, shape.dtype, shape.gradient_dtype);
  TensorParallel tp(f, shape, 1, spec.lora.scale());
  tp.multiply_narrow();
  const LayerTensors p(f, model, name, units);
  const std::int64_t own = tp.own_rows();
  const std::int64_t c = spec.hidden;
  Dropout drop_attention(f, shape.residual_dropout, DropoutPlace::Attention, own, c);
  Dropout drop_network(f, shape.residual_dropout, DropoutPlace::FeedForward, own, c);
  const auto attention = self_attention(f, tp, spec, shape, p, drop_attention);
  const auto network =
      experts ? mixture_of_experts(f, tp, spec, shape, p, drop_network)
              : dense_network(f, tp, spec, shape, p, dense_of_block(spec), &drop_network);
  const auto end = [&](const char* formal) { return f.formal(formal, own * c); };
  const TensorId x = end("x"), y = end("y"), dy = end("dy"), dx = end("dx");
  const std::string norm = spec.is_gpt2_kind() ? "ln" : "norm";
  const BlockParts parts{
      f, *attention, *network, own, c, x, y, dy, dx, [&](const char* number, auto from, auto to) {
        return Norm(f, spec, shape.dtype, own, c, p, norm + number, from, to);
      }};
  spec.post_norm ? emit_with_norms_behind(parts) : emit_with_norms_before(parts);
  p.pad(f);
  if (spec.freezes()) f.drop_unneeded();
  f.recompute(recompute, shape.recomputes_all);
  return {std::move(f), true, true};
}

}  // namespace lockstep
