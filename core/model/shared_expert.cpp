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

namespace {

class WithSharedExpert final : public FeedForward {
 public:
  WithSharedExpert(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
                   const LayerShape& shape, const LayerTensors& p,
                   std::unique_ptr<FeedForward> routed)
      : f_(f),
        rows_(shape.own_rows()),
        hidden_(spec.hidden),
        wide_(sum_type(shape.dtype)),
        gate_(p.linear("moe.shared_gate", "")),
        shared_(dense_network(f, tp, spec, shape, p, shared_expert(spec))),
        routed_(std::move(routed)) {}

  void forward(TensorId x, TensorId residual, TensorId y) override {
    x_ = x;
    const TensorId with_shared = f_.tensor(rows_ * hidden_);
    if (gate_.w.valid()) {
      made_ = f_.tensor(rows_ * hidden_, "shared");
      shared_->forward(x, {}, made_);
      logits_ = f_.tensor(rows_, wide_);
      f_.linear_forward(rows_, hidden_, 1, x, gate_.w, {}, {}, logits_);
      f_.emit(Part::Forward, KernelKind::GateForward,
              {{rows_, hidden_}, {}, {made_, logits_, residual}, {with_shared}});
    } else {
      shared_->forward(x, residual, with_shared);
    }
    routed_->forward(x, with_shared, y);
  }

  void backward(TensorId dy, TensorId dx) override {
    TensorId through_shared = f_.tensor(rows_ * hidden_, "dshared_x");
    if (gate_.w.valid()) {
      const TensorId dmade = f_.tensor(rows_ * hidden_, "dshared");
      const TensorId dlogits = f_.tensor(rows_, wide_);
      f_.emit(Part::InputGrad, KernelKind::GateBackward,
              {{rows_, hidden_}, {}, {dy, made_, logits_}, {dmade, dlogits}});
      shared_->backward(dmade, through_shared);
      const TensorId through_gate = f_.tensor(rows_ * hidden_);
      f_.emit(
          Part::InputGrad, KernelKind::Gemm,
          {{rows_, hidden_, 1, 0, 0}, {}, {dlogits, gate_.w, {}, through_shared}, {through_gate}});
      f_.linear_backward(rows_, hidden_, 1, dlogits, x_, gate_.w, {}, gate_.gw, {});
      through_shared = through_gate;
    } else {
      shared_->backward(dy, through_shared);
    }
    const TensorId through_routed = f_.tensor(rows_ * hidden_);
    routed_->backward(dy, through_routed);
    f_.emit(Part::InputGrad, KernelKind::Add,
            {{rows_, hidden_}, {}, {through_shared, through_routed, {}}, {dx}});
  }

 private:
  FunctionBuilder& f_;
  std::int64_t rows_, hidden_;
  DType wide_;
  LinearTensors gate_;
  std::unique_ptr<FeedForward> shared_, routed_;
  TensorId x_, made_, logits_;
};

}  // namespace

std::unique_ptr<FeedForward> with_shared_expert(FunctionBuilder& f, TensorParallel& tp,
                                                const ModelSpec& spec, const LayerShape& shape,
                                                const LayerTensors& p,
                                                std::unique_ptr<FeedForward> routed) {
  return std::make_unique<WithSharedExpert>(f, tp, spec, shape, p, std::move(routed));
}

}  // namespace lockstep
