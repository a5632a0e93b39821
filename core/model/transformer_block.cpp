// The block of a transformer: attention and the feed-forward network, each a branch beside a
// residual, with norms where the model has them.
#include <optional>

#include "core/model/feed_forward.hpp"
#include "core/model/self_attention.hpp"
#include "core/model/tensor_parallel.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_norm(LayerDeclaration& layer, const ModelSpec& spec, const std::string& name,
                  std::int64_t width) {
  layer.add(name + ".weight", {width}, InitKind::Ones);
  if (spec.parts().norm == NormKind::LayerNorm) {
    layer.add(name + ".bias", {width}, InitKind::Zeros);
  }
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
      layer_norm_(spec.parts().norm == NormKind::LayerNorm) {
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

namespace {

/// The name of the norm of branch 1 or 2.
std::string norm_name(const ModelSpec& spec, int branch) {
  return (spec.parts().norm == NormKind::LayerNorm ? "ln" : "norm") + std::to_string(branch);
}
/// … and of the one behind it, where there is another before it.
std::string last_norm_name(const ModelSpec& spec, int branch) {
  return norm_name(spec, branch) + (spec.norm_place == NormPlace::Around ? "_last" : "");
}

void declare_norms(LayerDeclaration& layer, const ModelSpec& spec, int branch) {
  if (spec.shared_norm && branch == 2) return;
  declare_norm(layer, spec, norm_name(spec, branch), spec.hidden);
  if (spec.norm_place == NormPlace::Around) {
    declare_norm(layer, spec, last_norm_name(spec, branch), spec.hidden);
  }
}

}  // namespace

/// Declares the parameters of a block. Heads are divided over the ranks of "tp".
void declare_block(LayerDeclaration& layer, const ModelSpec& spec, bool experts) {
  declare_norms(layer, spec, 1);
  declare_self_attention(layer, spec);
  declare_norms(layer, spec, 2);
  experts ? declare_experts(layer, spec) : declare_dense(layer, spec, dense_of_block(spec));
}

namespace {

/// What all branches of a block know.
struct BlockContext {
  FunctionBuilder& f;
  const ModelSpec& spec;
  DType dtype;
  std::int64_t rows;
  const LayerTensors& p;
  TensorId tensor(const std::string& name = "") const { return f.tensor(rows * spec.hidden, name); }
  Norm norm(const std::string& name, TensorId x, TensorId y) const {
    const auto scope = f.within(ForwardPart::Norm);
    return {f, spec, dtype, rows, spec.hidden, p, name, x, y};
  }
  void add(Part part, TensorId x, TensorId residual, TensorId y) const {
    f.emit(part, KernelKind::Add, {{rows, spec.hidden}, {}, {x, residual}, {y}});
  }
};

/// A branch f, which is attention or the feed-forward network, with what stands around it:
///   y = residual + f(norm(x)), norm(residual + f(x)), residual + norm(f(x)), or
///   residual + norm(f(norm(x))),
/// where f includes residual_multiplier.
template <class Function>
class Branch {
 public:
  Branch(const BlockContext& block, Function& function, int number)
      : b_(block), function_(function), number_(number), suffix_(std::to_string(number)) {}

  /// Returns y, which is the tensor given if it is valid. `normed` is norm(x) if that is known.
  TensorId forward(TensorId x, TensorId residual, TensorId y, TensorId normed = {}) {
    const NormPlace place = b_.spec.norm_place;
    if (place == NormPlace::BehindSum) {
      const TensorId sum = b_.tensor();
      y = y.valid() ? y : b_.tensor("h" + suffix_);
      function_.forward(x, residual, sum);
      last_.emplace(b_.norm(norm_name(b_.spec, number_), sum, y));
      return y;
    }
    TensorId h = normed.valid() ? normed : x;
    if (norms_first() && !normed.valid()) {
      h = b_.tensor("h" + suffix_);
      first_.emplace(b_.norm(norm_name(b_.spec, number_), x, h));
    }
    read_ = h;
    y = y.valid() ? y : b_.tensor();
    if (joins_directly()) {
      function_.forward(h, residual, y);
      return y;
    }
    TensorId made = b_.tensor("made" + suffix_);
    function_.forward(h, {}, made);
    if (norms_last()) {
      const TensorId raw = made;
      made = b_.tensor();
      last_.emplace(b_.norm(last_norm_name(b_.spec, number_), raw, made));
    }
    made = scaled(Part::Forward, made);
    b_.add(Part::Forward, made, residual, y);
    return y;
  }

  /// What the branch read: its input, or norm of that.
  TensorId read() const { return read_; }

  /// Returns the gradient of the input, which is the residual, too: the tensor `dx` if it is valid.
  /// `d_residual` is that of the residual, which is dy unless others add to it.
  TensorId backward(TensorId dy, TensorId d_residual, TensorId dx) {
    // The input of the second branch is what the first has added to.
    const auto result = [&] { return dx.valid() ? dx : b_.tensor("dx1"); };
    if (b_.spec.norm_place == NormPlace::BehindSum) {
      const TensorId d_sum = b_.tensor("dsum" + suffix_), dh = b_.tensor("dh" + suffix_);
      last_->backward(dy, {}, d_sum);
      function_.backward(d_sum, dh);
      dx = result();
      b_.add(Part::InputGrad, dh, d_sum, dx);
      return dx;
    }
    const TensorId dh = through_function(dy);
    dx = result();
    if (norms_first()) {
      first_->backward(dh, d_residual, dx);
    } else {
      b_.add(Part::InputGrad, dh, d_residual, dx);
    }
    return dx;
  }

  /// The gradient of what the branch read.
  TensorId through_function(TensorId dy) {
    TensorId d_made = dy;
    if (!joins_directly()) {
      d_made = scaled(Part::InputGrad, dy);
      if (norms_last()) {
        const TensorId d_normed = d_made;
        d_made = b_.tensor("dmade" + suffix_);
        last_->backward(d_normed, {}, d_made);
      }
    }
    const TensorId dh = b_.tensor("dh" + suffix_);
    function_.backward(d_made, dh);
    return dh;
  }
  /// The rest of backward(), of the norm before the branch.
  void through_norm(TensorId dh, TensorId d_residual, TensorId dx) {
    first_->backward(dh, d_residual, dx);
  }

 private:
  bool norms_first() const { return b_.spec.norm_place != NormPlace::BehindBranch; }
  bool norms_last() const { return b_.spec.norm_place != NormPlace::Before; }
  /// Whether the function itself adds the residual.
  bool joins_directly() const { return !norms_last() && b_.spec.residual_multiplier == 1; }
  TensorId scaled(Part part, TensorId x) {
    if (b_.spec.residual_multiplier == 1) return x;
    const TensorId y = b_.tensor(part == Part::Forward ? "" : "dscaled" + suffix_);
    b_.f.emit(part, KernelKind::Scale,
              {{b_.rows * b_.spec.hidden}, {b_.spec.residual_multiplier}, {x}, {y}});
    return y;
  }

  const BlockContext& b_;
  Function& function_;
  int number_;
  std::string suffix_;
  std::optional<Norm> first_, last_;
  TensorId read_;
};

/// The network reads what attention has added to.
void emit_in_sequence(Branch<SelfAttention>& attention, Branch<FeedForward>& network, TensorId x,
                      TensorId y, TensorId dy, TensorId dx) {
  const TensorId x1 = attention.forward(x, x, {});
  network.forward(x1, x1, y);
  const TensorId dx1 = network.backward(dy, dy, {});
  attention.backward(dx1, dx1, dx);
}

/// Both read the block's input.
void emit_in_parallel(const BlockContext& b, Branch<SelfAttention>& attention,
                      Branch<FeedForward>& network, TensorId x, TensorId y, TensorId dy,
                      TensorId dx) {
  const TensorId x1 = attention.forward(x, x, {});
  const bool shared = b.spec.shared_norm;
  network.forward(x, x1, y, shared ? attention.read() : TensorId{});
  if (shared) {
    const TensorId dh2 = network.through_function(dy), dh1 = attention.through_function(dy);
    const TensorId dh = b.tensor("dh");
    b.add(Part::InputGrad, dh1, dh2, dh);
    return attention.through_norm(dh, dy, dx);
  }
  attention.backward(dy, network.backward(dy, dy, {}), dx);
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
  const BlockContext block{f, spec, shape.dtype, own, p};
  Branch first(block, *attention, 1);
  Branch second(block, *network, 2);
  if (spec.parallel_branches) {
    emit_in_parallel(block, first, second, x, y, dy, dx);
  } else {
    emit_in_sequence(first, second, x, y, dy, dx);
  }
  p.pad(f);
  if (spec.freezes()) f.drop_unneeded();
  f.recompute(recompute, shape.recomputes_all);
  return {std::move(f), true, true};
}

}  // namespace lockstep
