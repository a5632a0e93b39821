#include "core/model/feed_forward.hpp"

#include <cmath>

#include "core/model/transformer_layers.hpp"

namespace lockstep {

double residual_scale(const ModelSpec& spec) {
  return 0.02 / std::sqrt(2.0 * static_cast<double>(spec.layers));
}

namespace {

/// The kernels of an activation, and of its gradient.
struct ActivationKernels {
  KernelKind forward, backward;
};
ActivationKernels kernels_of(Activation activation) {
  using K = KernelKind;
  switch (activation) {
    case Activation::Gelu:
      return {K::GeluForward, K::GeluBackward};
    case Activation::Relu:
      return {K::ReluForward, K::ReluBackward};
    case Activation::SquaredRelu:
      return {K::SquaredReluForward, K::SquaredReluBackward};
    case Activation::Swiglu:
      return {K::SwigluForward, K::SwigluBackward};
    case Activation::Geglu:
      return {K::GegluForward, K::GegluBackward};
  }
  return {};
}

/// The dimensions of such kernels.
std::vector<std::int64_t> activation_dims(const ModelSpec& spec, std::int64_t rows,
                                          std::int64_t width) {
  if (spec.is_gated()) return {rows, width};
  return {rows * width};
}

}  // namespace

void activation_forward(FunctionBuilder& f, const ModelSpec& spec, std::int64_t rows,
                        std::int64_t width, TensorId pre, TensorId act) {
  f.emit(Part::Forward, kernels_of(spec.parts().activation).forward,
         {activation_dims(spec, rows, width), {}, {pre}, {act}});
}

TensorId activation_backward(FunctionBuilder& f, const ModelSpec& spec, std::int64_t rows,
                             std::int64_t width, TensorId dact, TensorId pre) {
  const TensorId dpre = spec.is_gated() ? f.tensor(rows * 2 * width) : dact;
  f.emit(Part::InputGrad, kernels_of(spec.parts().activation).backward,
         {activation_dims(spec, rows, width), {}, {dact, pre}, {dpre}});
  return dpre;
}

namespace {

std::string first_weight(const ModelSpec& spec) { return spec.is_gated() ? ".w13" : ".wfc"; }
std::string second_weight(const ModelSpec& spec) { return spec.is_gated() ? ".w2" : ".wproj"; }

}  // namespace

void declare_dense(LayerDeclaration& layer, const ModelSpec& spec, const Dense& dense) {
  const std::int64_t c = spec.hidden;
  const std::int64_t ffn = dense.width;
  const double residual = residual_scale(spec);
  const std::int64_t up = spec.is_gated() ? 2 * ffn : ffn;
  const Split by_features = spec.is_gated() ? Split{0, {ffn, ffn}} : Split{0, {ffn}};
  const Split by_inputs{1, {ffn}};
  const std::string first = dense.name + first_weight(spec);
  const std::string second = dense.name + second_weight(spec);
  layer.add(first, {up, c}, InitKind::Normal, 0.02, by_features);
  layer.add_scales(first);
  if (spec.has_biases()) layer.add(dense.name + ".bfc", {up}, InitKind::Zeros, 0, by_features);
  layer.add(second, {c, ffn}, InitKind::Normal, residual, by_inputs);
  layer.add_scales(second);
  if (spec.has_biases() && dense.ends_with_bias)
    layer.add(dense.name + ".bproj", {c}, InitKind::Zeros);
  if (dense.name != "mlp") return;  // a shared expert has no adapters
  if (spec.adapts("linear_fc1")) layer.add_adapter(first, up, c, by_features);
  if (spec.adapts("linear_fc2")) layer.add_adapter(second, c, ffn, by_inputs);
}

namespace {

class DenseNetwork final : public FeedForward {
 public:
  DenseNetwork(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
               const LayerShape& shape, const LayerTensors& p, const Dense& dense, Dropout* dropout)
      : f_(f),
        spec_(spec),
        is_shared_(dense.name != "mlp"),
        rows_(tp.rows()),
        ffn_(dense.width / shape.tensor_parallel),
        up_(f, tp, within(dense, "up"), spec.hidden, spec.is_gated() ? 2 * ffn_ : ffn_,
            p.linear(dense.name + first_weight(spec), dense.name + ".bfc")),
        down_(f, tp, within(dense, "down"), ffn_, spec.hidden,
              p.linear(dense.name + second_weight(spec), dense.name + ".bproj")) {
    up_.drop_for_adapter(shape.adapter_dropout, DropoutPlace::AdapterOfFc1);
    down_.drop_for_adapter(shape.adapter_dropout, DropoutPlace::AdapterOfFc2);
    if (dropout != nullptr) down_.drop(*dropout);
  }

  void forward(TensorId x, TensorId residual, TensorId y) override {
    pre_ = f_.tensor(rows_ * (spec_.is_gated() ? 2 * ffn_ : ffn_));
    {
      const auto scope = part(ForwardPart::Up, ForwardPart::SharedUp, spec_.is_gated() ? 2 : 1);
      up_.forward(x, pre_);
    }
    const TensorId act = f_.tensor(rows_ * ffn_);
    {
      const auto scope = part(ForwardPart::Activation, ForwardPart::SharedActivation);
      activation_forward(f_, spec_, rows_, ffn_, pre_, act);
    }
    const auto scope = part(ForwardPart::Down, ForwardPart::SharedDown);
    down_.forward(act, residual, y);
  }
  void backward(TensorId dy, TensorId dx) override {
    const TensorId dact = f_.tensor(rows_ * ffn_);
    down_.backward(dy, dact);
    up_.backward(activation_backward(f_, spec_, rows_, ffn_, dact, pre_), dx);
  }

 private:
  /// What it communicates has other names than what the network of a block does.
  static std::string within(const Dense& dense, const std::string& part) {
    return dense.name == "mlp" ? part : dense.name + "." + part;
  }

  FunctionBuilder::Within part(ForwardPart of_block, ForwardPart of_shared, int products = 1) {
    return f_.within(is_shared_ ? of_shared : of_block, products);
  }

  FunctionBuilder& f_;
  const ModelSpec& spec_;
  bool is_shared_;  // it stands beside experts
  std::int64_t rows_, ffn_;
  ColumnLinear up_;
  RowLinear down_;
  TensorId pre_;
};

}  // namespace

std::unique_ptr<FeedForward> dense_network(FunctionBuilder& f, TensorParallel& tp,
                                           const ModelSpec& spec, const LayerShape& shape,
                                           const LayerTensors& p, const Dense& dense,
                                           Dropout* dropout) {
  return std::make_unique<DenseNetwork>(f, tp, spec, shape, p, dense, dropout);
}

}  // namespace lockstep
