// The shared expert: a dense network that every token takes beside the experts that it chooses (Dai
// et al. 2024, DeepSeekMoE), as wide as several of them or as one. Qwen2-MoE multiplies its result
// by a gate, the sigmoid of a linear layer of the same rows.
//
//   y = residual + gate(x) · shared(x) + routed(x)
#include "core/model/feed_forward.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_shared_expert(LayerDeclaration& layer, const ModelSpec& spec) {
  declare_dense(layer, spec, shared_expert(spec));
  if (spec.shared_expert_gate) {
    layer.add("moe.shared_gate", {1, spec.hidden}, InitKind::Normal, 0.02);
  }
}

SharedExpert::SharedExpert(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
                           const LayerShape& shape, const LayerTensors& p)
    : f_(f),
      rows_(shape.own_rows()),
      hidden_(spec.hidden),
      wide_(sum_type(shape.dtype)),
      gate_(p.linear("moe.shared_gate", "")),
      network_(dense_network(f, tp, spec, shape, p, shared_expert(spec))) {}

TensorId SharedExpert::forward(TensorId x, TensorId residual) {
  x_ = x;
  const TensorId both = f_.tensor(rows_ * hidden_, residual.valid() ? "" : "shared_y");
  if (!gate_.w.valid()) {
    network_->forward(x, residual, both);
    return both;
  }
  made_ = f_.tensor(rows_ * hidden_, "shared");
  network_->forward(x, {}, made_);
  const auto scope = f_.within(ForwardPart::SharedGate);
  logits_ = f_.tensor(rows_, wide_);
  f_.linear_forward(rows_, hidden_, 1, x, gate_.w, {}, {}, logits_);
  f_.emit(Part::Forward, KernelKind::GateForward,
          {{rows_, hidden_}, {}, {made_, logits_, residual}, {both}});
  return both;
}

TensorId SharedExpert::backward(TensorId dy) {
  const TensorId through_network = f_.tensor(rows_ * hidden_, "dshared_x");
  if (!gate_.w.valid()) {
    network_->backward(dy, through_network);
    return through_network;
  }
  const TensorId dmade = f_.tensor(rows_ * hidden_, "dshared");
  const TensorId dlogits = f_.tensor(rows_, wide_);
  f_.emit(Part::InputGrad, KernelKind::GateBackward,
          {{rows_, hidden_}, {}, {dy, made_, logits_}, {dmade, dlogits}});
  network_->backward(dmade, through_network);
  const TensorId dx = f_.tensor(rows_ * hidden_);
  f_.emit(Part::InputGrad, KernelKind::Gemm,
          {{rows_, hidden_, 1, 0, 0}, {}, {dlogits, gate_.w, {}, through_network}, {dx}});
  f_.linear_backward(rows_, hidden_, 1, dlogits, x_, gate_.w, {}, gate_.gw, {});
  return dx;
}

}  // namespace lockstep
