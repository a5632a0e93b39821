// A mixture of experts in place of the feed-forward network (Shazeer et al. 2017).
//
// Tokens are routed as in Mixtral (Jiang et al. 2024): by a softmax over all experts, a token
// chooses the `experts_per_token` most probable ones, weighted by their probabilities over the sum
// of these; or by a sigmoid of every expert's logit, as in DeepSeek-V3. With one choice the weight
// is the probability itself, as in Switch Transformer (Fedus et al. 2021). Every expert has room
// for `capacity` tokens of a microbatch and rank, so that all sizes are known beforehand (Lepikhin
// et al. 2020); a token that finds no room keeps only its residual. A bias of each expert may be
// added to the probabilities for the choice alone; a step moves it against the expert's load (Wang
// et al. 2024), which is summed over ranks as gradients are. Tensor parallelism does not divide
// experts: with sequence parallelism, each of its ranks routes its own rows, and their gradients
// are summed (as with Megatron-Core's expert_tensor_parallel_size = 1).
//
//   x [tokens, hidden] -> places [experts, capacity, hidden] -> all-to-all over "ep": from every
//   rank, for its own experts -> their networks -> all-to-all back -> sum of the choices by gates
#include <optional>

#include "core/model/feed_forward.hpp"
#include "core/model/transformer_layers.hpp"

namespace lockstep {

void declare_experts(LayerDeclaration& layer, const ModelSpec& spec) {
  const std::int64_t c = spec.hidden;
  const std::int64_t ffn = spec.ffn_hidden;
  const std::int64_t n = spec.experts;
  const double residual = residual_scale(spec);
  layer.add("moe.router", {n, c}, InitKind::Normal, 0.02);
  if (spec.router_bias_update_rate > 0) layer.add_router_bias("moe.router_bias", n);
  if (spec.is_gpt2_kind()) {
    layer.add_expert("moe.experts.wfc", {n, ffn, c}, InitKind::Normal, 0.02);
    layer.add_expert("moe.experts.bfc", {n, ffn}, InitKind::Zeros);
    layer.add_expert("moe.experts.wproj", {n, c, ffn}, InitKind::Normal, residual);
    layer.add_expert("moe.experts.bproj", {n, c}, InitKind::Zeros);
  } else {
    layer.add_expert("moe.experts.w13", {n, 2 * ffn, c}, InitKind::Normal, 0.02, {ffn, ffn});
    layer.add_expert("moe.experts.w2", {n, c, ffn}, InitKind::Normal, residual);
  }
  if (spec.shared_expert_hidden > 0) declare_shared_expert(layer, spec);
}

namespace {

/// A linear layer of each expert that this rank holds, for rows from all ranks of "ep".
class ExpertLinear {
 public:
  ExpertLinear(FunctionBuilder& f, const LayerShape& shape, std::int64_t experts,
               std::int64_t capacity, std::int64_t in, std::int64_t out,
               const LinearTensors& weights)
      : f_(f),
        groups_(experts / shape.expert_parallel),
        chunks_(shape.expert_parallel),
        rows_(capacity),
        in_(in),
        out_(out),
        weights_(weights) {}

  void forward(TensorId x, TensorId y) {
    x_ = x;
    f_.emit(Part::Forward, KernelKind::GroupedGemm,
            {{groups_, chunks_, rows_, out_, in_, 1}, {}, {x, weights_.w, weights_.b}, {y}});
  }
  void backward(TensorId dy, TensorId dx) {
    f_.emit(Part::InputGrad, KernelKind::GroupedGemm,
            {{groups_, chunks_, rows_, in_, out_, 0}, {}, {dy, weights_.w, {}}, {dx}});
    f_.emit(Part::WeightGrad, KernelKind::GroupedGemmWeight,
            {{groups_, chunks_, rows_, out_, in_}, {}, {dy, x_}, {weights_.gw, weights_.gb}});
  }

 private:
  FunctionBuilder& f_;
  std::int64_t groups_, chunks_, rows_, in_, out_;
  LinearTensors weights_;
  TensorId x_;
};

class MixtureOfExperts final : public FeedForward {
 public:
  MixtureOfExperts(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
                   const LayerShape& shape, const LayerTensors& p, Dropout& dropout)
      : f_(f),
        spec_(spec),
        shape_(shape),
        tokens_(shape.own_rows()),
        hidden_(spec.hidden),
        ffn_(spec.ffn_hidden),
        capacity_(spec.expert_capacity(tokens_, shape.expert_parallel)),
        places_(spec.experts * capacity_),
        sigmoids_(spec.router_score == RouterScore::Sigmoid ? 1 : 0),
        routing_({tokens_, spec.experts, spec.experts_per_token, capacity_, sigmoids_}),
        combination_({tokens_, hidden_, spec.experts_per_token, places_}),
        router_(p.linear("moe.router", "")),
        dropout_(dropout),
        bias_(p.w("moe.router_bias")),
        load_(p.g("moe.router_bias")),
        up_(f, shape, spec.experts, capacity_, hidden_, spec.is_gpt2_kind() ? ffn_ : 2 * ffn_,
            p.linear(spec.is_gpt2_kind() ? "moe.experts.wfc" : "moe.experts.w13",
                     "moe.experts.bfc")),
        down_(f, shape, spec.experts, capacity_, ffn_, hidden_,
              p.linear(spec.is_gpt2_kind() ? "moe.experts.wproj" : "moe.experts.w2",
                       "moe.experts.bproj")) {
    if (spec.shared_expert_hidden > 0) shared_.emplace(f, tp, spec, shape, p);
  }

  void forward(TensorId x, TensorId residual, TensorId y) override {
    x_ = x;
    const DType wide = sum_type(shape_.dtype);
    const TensorId logits = f_.tensor(tokens_ * spec_.experts, wide);
    f_.linear_forward(tokens_, hidden_, spec_.experts, x, router_.w, {}, {}, logits);
    probs_ = f_.tensor(tokens_ * spec_.experts, wide);
    gates_ = f_.tensor(tokens_ * spec_.experts_per_token, wide);
    slots_ = f_.tensor(tokens_ * spec_.experts_per_token, DType::I32);
    sources_ = f_.tensor(places_, DType::I32);
    f_.emit(Part::Forward, KernelKind::RouteForward,
            {routing_, {}, {logits, bias_}, {probs_, gates_, slots_, sources_}});
    const TensorId given = f_.tensor(places_ * hidden_, "dispatched");  // zeros in empty places
    f_.emit(Part::Forward, KernelKind::EmbeddingForward,
            {{places_, hidden_, places_, tokens_}, {}, {sources_, x, {}}, {given}});
    pre_ = f_.tensor(places_ * (spec_.is_gpt2_kind() ? ffn_ : 2 * ffn_));
    const TensorId mine = exchange(Part::Forward, given, "expert_x");
    // What the experts' sum is added to: the residual, unless that comes behind dropout.
    TensorId added = dropout_.active() ? TensorId{} : residual;
    if (shared_) added = shared_->forward(x, added);  // while tokens go to their experts
    up_.forward(mine, pre_);
    const TensorId act = f_.tensor(places_ * ffn_);
    activation_forward(f_, spec_, places_, ffn_, pre_, act);
    const TensorId made = f_.tensor(places_ * hidden_, "expert_y");
    down_.forward(act, made);
    combined_ = exchange(Part::Forward, made, "returned");
    const TensorId sum = dropout_.active() ? f_.tensor(tokens_ * hidden_) : y;
    f_.emit(Part::Forward, KernelKind::CombineForward,
            {combination_, {}, {combined_, gates_, slots_, added}, {sum}});
    if (dropout_.active()) dropout_.forward(sum, residual, {}, y);
  }

  void backward(TensorId dy, TensorId dx) override {
    dy = dropout_.backward(Part::InputGrad, dy);
    const DType wide = sum_type(shape_.dtype);
    const double balance = spec_.router_aux_loss_coef * shape_.loss_scale;
    const std::vector<std::string> axes = balance > 0 ? axes_of_rows() : std::vector<std::string>{};
    TensorId load;  // how often each expert is chosen, of all tokens of the microbatch
    if (!axes.empty()) {
      load = f_.tensor(spec_.experts, wide, "load");
      f_.emit(Part::InputGrad, KernelKind::RouteLoad, {routing_, {}, {slots_}, {load}});
      for (const std::string& axis : axes) {
        f_.communicate(Part::InputGrad, OpKind::AllReduce, axis, load, load);
      }
    }
    f_.emit(Part::WeightGrad, KernelKind::RouteLoad, {routing_, {}, {slots_}, {load_}});
    const TensorId dreturned = f_.tensor(places_ * hidden_, "dreturned");
    const TensorId dgates = f_.tensor(tokens_ * spec_.experts_per_token, wide);
    f_.emit(Part::InputGrad, KernelKind::CombineBackward,
            {combination_, {}, {dy, combined_, gates_, slots_}, {dreturned, dgates}});
    const TensorId dact = f_.tensor(places_ * ffn_);
    const TensorId dmade = exchange(Part::InputGrad, dreturned, "dexpert_y");
    const TensorId through_shared = shared_ ? shared_->backward(dy) : TensorId{};
    down_.backward(dmade, dact);
    const TensorId dpre = activation_backward(f_, spec_, places_, ffn_, dact, pre_);
    const TensorId dmine = f_.tensor(places_ * hidden_, "dexpert_x");
    up_.backward(dpre, dmine);
    const TensorId dgiven = exchange(Part::InputGrad, dmine, "ddispatched");
    TensorId through_experts = f_.tensor(tokens_ * hidden_);
    f_.emit(Part::InputGrad, KernelKind::EmbeddingBackward,
            {{places_, hidden_, places_, tokens_}, {}, {sources_, dgiven}, {through_experts, {}}});
    if (shared_) {
      const TensorId through_all = f_.tensor(tokens_ * hidden_);
      f_.emit(Part::InputGrad, KernelKind::Add,
              {{tokens_, hidden_}, {}, {through_experts, through_shared, {}}, {through_all}});
      through_experts = through_all;
    }
    TensorId dlogits = f_.tensor(tokens_ * spec_.experts, wide);
    std::vector<TensorId> given = {dgates, probs_, slots_};
    f_.emit(Part::InputGrad, KernelKind::RouteBackward,
            {routing_,
             {axes.empty() ? balance : 0},
             balance > 0 && axes.empty() ? with_loss_scale(f_, shape_, std::move(given))
                                         : std::move(given),
             {dlogits}});
    if (!axes.empty()) {
      const TensorId balanced = f_.tensor(tokens_ * spec_.experts, wide);
      f_.emit(Part::InputGrad, KernelKind::RouteBalance,
              {{tokens_, spec_.experts, sigmoids_},
               {balance},
               with_loss_scale(f_, shape_, {dlogits, probs_, load}),
               {balanced}});
      dlogits = balanced;
    }
    f_.emit(Part::InputGrad, KernelKind::Gemm,
            {{tokens_, hidden_, spec_.experts, 0, 0},
             {},
             {dlogits, router_.w, {}, through_experts},
             {dx}});
    f_.linear_backward(tokens_, hidden_, spec_.experts, dlogits, x_, router_.w, {}, router_.gw, {});
  }

 private:
  /// [experts, capacity, hidden] of one rank <-> [ranks, own experts, capacity, hidden].
  TensorId exchange(Part part, TensorId x, const std::string& name) {
    if (shape_.expert_parallel == 1) return x;
    const TensorId there = f_.tensor(places_ * hidden_, name);
    f_.communicate(part, OpKind::AllToAll, "ep", x, there);
    return there;
  }

  /// Axes whose ranks route other tokens of the same microbatch, which are balanced as one.
  std::vector<std::string> axes_of_rows() const {
    std::vector<std::string> axes;
    if (shape_.sequence_parallel && shape_.tensor_parallel > 1) axes.emplace_back("tp");
    if (shape_.context_parallel > 1) axes.emplace_back("cp");
    return axes;
  }

  FunctionBuilder& f_;
  const ModelSpec& spec_;
  const LayerShape& shape_;
  std::int64_t tokens_, hidden_, ffn_, capacity_, places_, sigmoids_;
  std::vector<std::int64_t> routing_, combination_;  // dimensions of the kernels
  LinearTensors router_;
  Dropout& dropout_;
  TensorId bias_, load_;  // of the experts, for their choice; the load takes the gradient's place
  ExpertLinear up_, down_;
  std::optional<SharedExpert> shared_;
  TensorId x_, probs_, gates_, slots_, sources_, pre_, combined_;
};

}  // namespace

std::unique_ptr<FeedForward> mixture_of_experts(FunctionBuilder& f, TensorParallel& tp,
                                                const ModelSpec& spec, const LayerShape& shape,
                                                const LayerTensors& p, Dropout& dropout) {
  return std::make_unique<MixtureOfExperts>(f, tp, spec, shape, p, dropout);
}

}  // namespace lockstep
