// A mixture of experts in place of the feed-forward network (Shazeer et al. 2017).
//
// Tokens are routed as in Mixtral (Jiang et al. 2024): by a softmax over all experts, a token
// chooses the `experts_per_token` most probable ones, weighted by their probabilities over the sum
// of these; or by a sigmoid of every expert's logit, as in DeepSeek-V3. With one choice the weight
// is the probability itself, as in Switch Transformer (Fedus et al. 2021). An expert may have room
// for `capacity` tokens of a microbatch and rank (Lepikhin et al. 2020); a token that finds no room
// keeps only its residual. Or none is dropped (Gale et al. 2022, MegaBlocks): the rows of all
// choices stand one behind the other, expert by expert, ranks tell each other how many they send,
// and products are of the rows that came, in buffers that are planned for a bound. A bias of each
// expert may be added to the probabilities for the choice alone; a step moves it against the
// expert's load (Wang et al. 2024), which is summed over ranks as gradients are. With sequence
// parallelism each of its ranks routes its own rows. They hold their experts whole, and gradients
// are summed over them; or, with expert tensor parallelism, they divide each expert as they do a
// dense network: what came to the experts of one of them is gathered by all, and what they make of
// it is summed and scattered (Singh et al. 2023, A Hybrid Tensor-Expert-Data Parallelism Approach;
// Megatron Core's expert_tensor_parallel_size); groups of them, which then divide the experts, may
// do so each for its own. Without sequence parallelism they must do that, and
// as all of them route all rows, nothing is gathered, and sums are all-reduced.
//
//   x [tokens, hidden] -> places [experts, capacity, hidden] -> all-to-all over "ep": from every
//   rank, for its own experts -> their networks -> all-to-all back -> sum of the choices by gates
//
// Without a capacity there are tokens × experts_per_token places of a rank's own rows, and the two
// all-to-alls are of as many rows as counts [experts] say, which an all-to-all exchanges before.
#include <algorithm>
#include <array>
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
  if (!spec.is_gated()) {
    layer.add_expert("moe.experts.wfc", {n, ffn, c}, InitKind::Normal, 0.02);
    layer.add_expert("moe.experts.bfc", {n, ffn}, InitKind::Zeros);
    layer.add_expert("moe.experts.wproj", {n, c, ffn}, InitKind::Normal, residual);
    layer.add_expert("moe.experts.bproj", {n, c}, InitKind::Zeros);
  } else {
    layer.add_expert("moe.experts.w13", {n, 2 * ffn, c}, InitKind::Normal, 0.02, {ffn, ffn},
                     {1, {ffn, ffn}});
    layer.add_scales("moe.experts.w13");
    layer.add_scales("moe.experts.w2");
    layer.add_expert("moe.experts.w2", {n, c, ffn}, InitKind::Normal, residual, {}, {2, {ffn}});
  }
  const bool gated = spec.is_gated();
  if (spec.adapts_experts("linear_fc1")) {
    layer.add_expert_adapter(gated ? "moe.experts.w13" : "moe.experts.wfc", n,
                             gated ? 2 * ffn : ffn, c);
  }
  if (spec.adapts_experts("linear_fc2")) {
    layer.add_expert_adapter(gated ? "moe.experts.w2" : "moe.experts.wproj", n, c, ffn);
  }
  if (spec.shared_expert_hidden > 0) declare_shared_expert(layer, spec);
}

namespace {

/// The rows of the experts that this rank holds, from all ranks of "ep".
struct RowsOfExperts {
  std::int64_t groups, chunks;    // experts; ranks from which rows come, those of tp together
  std::int64_t blocks;            // ranks of tp whose rows are gathered; 1: their rows are the same
  std::int64_t capacity;          // places of each expert for rows of each rank; 0: no such places
  std::int64_t places, expected;  // of all of them
  TensorId counts = {};           // [chunks, groups]; invalid with a capacity
};

/// A linear layer of each of these experts, in 8 bits where the shape says so: then blocks of rows
/// are those of one expert and one rank, for which its room for each rank's rows is a multiple of a
/// block, or, where rows are counted, those of each rank are padded to one. (Megatron-LM pads the
/// choices of each rank's tokens, --moe-router-padding-for-fp8, so that all that follows has more
/// rows. Here only lines of codes over rows have room for it.)
class ExpertLinear {
 public:
  ExpertLinear(FunctionBuilder& f, const LayerShape& shape, const RowsOfExperts& rows,
               std::int64_t in, std::int64_t out, const LinearTensors& weights,
               double adapter_scale)
      : f_(f),
        float8_(shape.float8),
        scales_(sum_type(shape.dtype)),
        rows_(rows),
        in_(in),
        out_(out),
        weights_(weights),
        adapter_scale_(adapter_scale),
        rank_(weights.adapter.a.valid() ? f.elements(weights.adapter.a) / (rows.groups * in) : 0) {}

  void forward(TensorId x, TensorId y) {
    x_ = x;
    if (float8_.active()) {
      const Codes by_rows = rounded_rows(Part::Forward, 0, x, in_, false, float8_.forward);
      if (weights_.gw.valid())
        x_by_columns_ = rounded_rows(Part::Forward, 0, x, in_, true, float8_.forward);
      multiply(Part::Forward, out_, in_, false, by_rows, rounded_weights(Part::Forward, false), y);
    } else {
      product(Part::Forward, x, weights_.w, out_, in_, true, weights_.b, y);
    }
    if (rank_ == 0) return;
    const TensorId made = f_.tensor(rows_.places * rank_);
    product(Part::Forward, x, weights_.adapter.a, rank_, in_, true, {}, made);
    z_ = scaled(Part::Forward, made);
    product(Part::Forward, z_, weights_.adapter.b, out_, rank_, true, {}, y, true);
  }
  void backward(TensorId dy, TensorId dx) {
    if (float8_.active()) {
      backward_narrow(dy, dx);
    } else {
      product(Part::InputGrad, dy, weights_.w, in_, out_, false, {}, dx);
      weight_gradient(dy, x_, out_, in_, weights_.gw, weights_.gb);
    }
    if (rank_ == 0) return;
    const TensorId dz = f_.tensor(rows_.places * rank_);
    product(Part::InputGrad, dy, weights_.adapter.b, rank_, out_, false, {}, dz);
    weight_gradient(dy, z_, out_, rank_, weights_.adapter.gb, {});
    const TensorId dmade = scaled(Part::InputGrad, dz);
    product(Part::InputGrad, dmade, weights_.adapter.a, in_, rank_, false, {}, dx, true);
    weight_gradient(dmade, x_, rank_, in_, weights_.adapter.ga, {});
  }

 private:
  struct Codes {
    TensorId values, scales;
    std::int64_t across = 1;
    int mantissa = 0;
    std::int64_t block = 0;
  };
  std::int64_t weight_rows() const { return float8_.square_weights ? float8_.block : 1; }
  bool counted() const { return rows_.capacity == 0; }
  std::int64_t parts() const { return rows_.groups * rows_.chunks; }
  /// Room for the blocks of all parts of the rows, and how many codes of a line are expected: of
  /// the last block of a part half is padding.
  std::int64_t padded(std::int64_t block) const {
    return (rows_.places + parts() * (block - 1)) / block * block;
  }
  std::int64_t expected_padded(std::int64_t block) const {
    return std::min(padded(block), rows_.expected + parts() * (block - 1) / 2);
  }
  /// Rows of a block of codes over counted rows. Where the scale is known its copies take a byte
  /// for every eight codes, and padding on average 16 rows of each part.
  std::int64_t rows_of_block() const { return float8_.delayed() ? 32 : float8_.block; }
  /// Where the scale of a factor is known: the factor's own, by its place among scales. Where its
  /// transpose is rounded, or it alone, its largest magnitude is found.
  struct Known {
    TensorId scale, largest;
  };
  Known known_scale(int place, bool transposed) {
    if (!float8_.delayed()) return {};
    Known known{f_.element(weights_.scales, place), {}};
    if (transposed == (place == 1 || weights_.gw.valid())) {
      known.largest = found_[to_size(place)] = f_.tensor(1, scales_);
    }
    return known;
  }

  /// Rows in places of `cols` columns, or their transpose.
  Codes rounded_rows(Part part, int place, TensorId x, std::int64_t cols, bool transposed,
                     int mantissa) {
    if (!counted()) return rounded(part, place, x, rows_.places, cols, transposed, 1, mantissa);
    const std::int64_t block = transposed          ? rows_of_block()
                               : float8_.delayed() ? cols
                                                   : float8_.block;
    const std::int64_t lines = transposed ? cols : rows_.places;
    const std::int64_t length = transposed ? padded(block) : cols;
    const Known known = known_scale(place, transposed);
    const Codes codes{f_.tensor(lines * length, DType::U8),
                      f_.tensor(lines * ceil_div(length, block), scales_), 1, mantissa, block};
    f_.emit(part, KernelKind::RaggedQuantize,
            {{parts(), rows_.places, rows_.expected, cols, transposed, block, rows_.blocks,
              padded(block)},
             {static_cast<double>(mantissa)},
             {x, rows_.counts, known.scale},
             {codes.values, codes.scales, known.largest}});
    return codes;
  }
  Codes rounded_weights(Part part, bool transposed) {
    return rounded(part, 1, weights_.w, rows_.groups * out_, in_, transposed, weight_rows(),
                   float8_.forward);
  }
  /// A factor, x, w or dy by its place among scales. Where its scale is known it is that of all
  /// blocks, which are lines of one expert and rank.
  Codes rounded(Part part, int place, TensorId x, std::int64_t rows, std::int64_t cols,
                bool transposed, std::int64_t across, int mantissa) {
    const Known known = known_scale(place, transposed);
    const std::int64_t lines = transposed ? cols : rows, length = transposed ? rows : cols;
    const std::int64_t block = !float8_.delayed() ? float8_.block
                               : !transposed      ? cols
                               : place == 1       ? out_
                                                  : rows_.capacity;
    const Codes codes{f_.tensor(lines * length, DType::U8),
                      f_.tensor(ceil_div(lines, across) * ceil_div(length, block), scales_), across,
                      mantissa, block};
    f_.emit(part, KernelKind::Quantize,
            {{rows, cols, transposed, across, block, known.scale.valid() ? 1 : 0},
             {static_cast<double>(mantissa)},
             {x, known.scale},
             {codes.values, codes.scales, known.largest}});
    return codes;
  }
  /// c [places, n] = a · wᵀ, of weights [groups, n, k], or [n, groups, k] if they are `beside` each
  /// other.
  void multiply(Part part, std::int64_t n, std::int64_t k, bool beside, const Codes& a,
                const Codes& w, TensorId c) {
    const auto& [groups, chunks, blocks, capacity, places, expected, counts] = rows_;
    const double first = a.mantissa, second = w.mantissa, is_beside = beside ? 1 : 0;
    if (counted()) {
      return f_.emit(part, KernelKind::RaggedScaledGemm,
                     {{groups, chunks, places, expected, n, k, w.across, a.block},
                      {first, second, is_beside, static_cast<double>(blocks)},
                      {a.values, w.values, a.scales, w.scales, counts},
                      {c}});
    }
    f_.emit(part, KernelKind::ScaledGemm,
            {{places, n, k, a.across, w.across, a.block, 0, groups},
             {first, second, static_cast<double>(chunks), is_beside},
             {a.values, w.values, {}, {}, a.scales, w.scales},
             {c}});
  }
  void multiply_gradient(const Codes& dy) {
    const auto& [groups, chunks, blocks, capacity, places, expected, counts] = rows_;
    const double first = dy.mantissa, second = x_by_columns_.mantissa;
    if (counted()) {
      return f_.emit(
          Part::WeightGrad, KernelKind::RaggedScaledGemmWeight,
          {{groups, chunks, padded(dy.block), expected_padded(dy.block), out_, in_, dy.block},
           {first, second},
           {dy.values, x_by_columns_.values, dy.scales, x_by_columns_.scales, counts},
           {weights_.gw}});
    }
    f_.emit(Part::WeightGrad, KernelKind::ScaledGemm,
            {{out_, in_, places, 1, 1, dy.block, 1, groups},
             {first, second, static_cast<double>(chunks), 0},
             {dy.values, x_by_columns_.values, {}, {}, dy.scales, x_by_columns_.scales},
             {weights_.gw}});
  }
  void backward_narrow(TensorId dy, TensorId dx) {
    const Codes by_rows = rounded_rows(Part::InputGrad, 2, dy, out_, false, float8_.gradient);
    multiply(Part::InputGrad, in_, out_, true, by_rows, rounded_weights(Part::InputGrad, true), dx);
    if (weights_.gw.valid()) {
      multiply_gradient(rounded_rows(Part::WeightGrad, 2, dy, out_, true, float8_.gradient));
    }
    if (!float8_.delayed()) return;
    f_.emit(Part::WeightGrad, KernelKind::Largest,
            {{}, {}, {found_.begin(), found_.end()}, {weights_.largest}});
  }

  /// c (+)= a · wᵀ (transposed: of weights [groups, n, k]) or a · w (of weights [groups, k, n]).
  void product(Part part, TensorId a, TensorId w, std::int64_t n, std::int64_t k, bool transposed,
               TensorId bias, TensorId c, bool accumulate = false) {
    const auto& [groups, chunks, blocks, capacity, places, expected, counts] = rows_;
    if (capacity > 0) {
      f_.emit(part, KernelKind::GroupedGemm,
              {{groups, chunks, capacity, n, k, transposed}, {}, {a, w, bias}, {c}, accumulate});
    } else {
      f_.emit(part, KernelKind::RaggedGemm,
              {{groups, chunks, places, expected, n, k, transposed, blocks},
               {},
               {a, w, bias, counts},
               {c},
               accumulate});
    }
  }
  /// dw [groups, m, n] of dy [places, m] and x [places, n], and that of a bias.
  void weight_gradient(TensorId dy, TensorId x, std::int64_t m, std::int64_t n, TensorId dw,
                       TensorId dbias) {
    const auto& [groups, chunks, blocks, capacity, places, expected, counts] = rows_;
    if (capacity > 0) {
      f_.emit(Part::WeightGrad, KernelKind::GroupedGemmWeight,
              {{groups, chunks, capacity, m, n}, {}, {dy, x}, {dw, dbias}});
    } else {
      f_.emit(Part::WeightGrad, KernelKind::RaggedGemmWeight,
              {{groups, chunks, places, expected, m, n, blocks}, {}, {dy, x, counts}, {dw, dbias}});
    }
  }
  /// What an adapter has made of rows, or its gradient, times the adapter's scale.
  TensorId scaled(Part part, TensorId made) {
    const TensorId result = f_.tensor(rows_.places * rank_);
    f_.emit(part, KernelKind::Scale, {{rows_.places * rank_}, {adapter_scale_}, {made}, {result}});
    return result;
  }

  FunctionBuilder& f_;
  const Float8Factors float8_;
  const DType scales_;
  const RowsOfExperts& rows_;
  std::int64_t in_, out_;
  LinearTensors weights_;
  double adapter_scale_;
  std::int64_t rank_;  // of the experts' adapters; 0: they have none
  TensorId x_, z_;     // z: of the adapters
  Codes x_by_columns_;
  std::array<TensorId, 3> found_{};  // of x, w and dy: the largest magnitudes of a microbatch
};

RowsOfExperts rows_of_experts(const ModelSpec& spec, const LayerShape& shape) {
  const int ranks = shape.expert_parallel;
  const int blocks = shape.sequence_parallel ? shape.expert_tensor_parallel : 1;
  RowsOfExperts rows{spec.experts / ranks, std::int64_t{blocks} * ranks, blocks, 0, 0, 0};
  if (spec.is_dropless()) {
    const ModelSpec::ExpertRows all = spec.expert_rows(shape.own_rows(), ranks);
    rows.places = blocks * all.places;
    rows.expected = blocks * all.expected;
  } else {
    rows.capacity = spec.expert_capacity(shape.own_rows(), ranks);
    rows.places = rows.expected = blocks * spec.experts * rows.capacity;
  }
  return rows;
}

class MixtureOfExperts final : public FeedForward {
 public:
  MixtureOfExperts(FunctionBuilder& f, TensorParallel& tp, const ModelSpec& spec,
                   const LayerShape& shape, const LayerTensors& p, Dropout& dropout)
      : f_(f),
        spec_(spec),
        shape_(shape),
        tokens_(shape.own_rows()),
        hidden_(spec.hidden),
        ffn_(spec.ffn_hidden / shape.expert_tensor_parallel),
        rows_(rows_of_experts(spec, shape)),
        places_(dropless() ? tokens_ * spec.experts_per_token : rows_.places / rows_.blocks),
        arriving_(rows_.places / rows_.blocks),
        sigmoids_(spec.router_score == RouterScore::Sigmoid ? 1 : 0),
        routing_({tokens_, spec.experts, spec.experts_per_token, rows_.capacity, sigmoids_}),
        combination_({tokens_, hidden_, spec.experts_per_token, places_}),
        router_(p.linear("moe.router", "")),
        dropout_(dropout),
        bias_(p.w("moe.router_bias")),
        load_(p.g("moe.router_bias")),
        up_(f, shape, rows_, hidden_, spec.is_gated() ? 2 * ffn_ : ffn_,
            p.linear(spec.is_gated() ? "moe.experts.w13" : "moe.experts.wfc", "moe.experts.bfc"),
            spec.lora.scale()),
        down_(
            f, shape, rows_, ffn_, hidden_,
            p.linear(spec.is_gated() ? "moe.experts.w2" : "moe.experts.wproj", "moe.experts.bproj"),
            spec.lora.scale()) {
    if (spec.shared_expert_hidden > 0) shared_.emplace(f, tp, spec, shape, p);
  }

  void forward(TensorId x, TensorId residual, TensorId y) override {
    x_ = x;
    route(x);
    const TensorId mine = dispatched(x);
    // What the experts' sum is added to: the residual, unless that comes behind dropout.
    TensorId added = dropout_.active() ? TensorId{} : residual;
    if (shared_) added = shared_->forward(x, added);  // while tokens go to their experts
    combine(through_experts(mine), added, residual, y);
  }

  void backward(TensorId dy, TensorId dx) override {
    dy = dropout_.backward(Part::InputGrad, dy);
    const DType wide = sum_type(shape_.dtype);
    const double balance = spec_.router_aux_loss_coef * shape_.loss_scale;
    const std::vector<std::string> axes = balance > 0 ? axes_of_rows() : std::vector<std::string>{};
    TensorId load;  // how often each expert is chosen, of all tokens of the microbatch
    if (!axes.empty()) {
      load = f_.tensor(spec_.experts, wide, "load");
      f_.emit(Part::InputGrad, KernelKind::RouteLoad, {routing_, {}, choices(), {load}});
      for (const std::string& axis : axes) {
        f_.communicate(Part::InputGrad, OpKind::AllReduce, axis, load, load);
      }
    }
    f_.emit(Part::WeightGrad, KernelKind::RouteLoad, {routing_, {}, choices(), {load_}});
    const TensorId dreturned = f_.tensor(places_ * hidden_, "dreturned");
    const TensorId dgates = f_.tensor(tokens_ * spec_.experts_per_token, wide);
    f_.emit(Part::InputGrad, KernelKind::CombineBackward,
            {combination_, {}, {dy, combined_, gates_, slots_}, {dreturned, dgates}});
    const TensorId dact = f_.tensor(rows_.places * ffn_);
    const TensorId dmade =
        gathered(Part::InputGrad, to_experts(Part::InputGrad, dreturned, "dexpert_y"), "all_dy");
    const TensorId through_shared = shared_ ? shared_->backward(dy) : TensorId{};
    down_.backward(dmade, dact);
    const TensorId dpre = through_activation(dact, pre_);
    const TensorId dmine = f_.tensor(rows_.places * hidden_, "dexpert_x");
    up_.backward(dpre, dmine);
    const TensorId dgiven =
        from_experts(Part::InputGrad, summed(Part::InputGrad, dmine, "dx_made"), "ddispatched");
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
    if (balance > 0 && axes.empty()) given = with_loss_scale(f_, shape_, std::move(given));
    if (dropless()) {
      given.resize(4);  // without a loss scale if there is none
      given.push_back(counts_);
    }
    f_.emit(Part::InputGrad, KernelKind::RouteBackward,
            {routing_, {axes.empty() ? balance : 0}, std::move(given), {dlogits}});
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
  /// Chooses experts for own rows x, and tells all that need it how many rows go where.
  void route(TensorId x) {
    const auto scope = f_.within(ForwardPart::Router);
    const DType wide = sum_type(shape_.dtype);
    const TensorId logits = f_.tensor(tokens_ * spec_.experts, wide);
    f_.linear_forward(tokens_, hidden_, spec_.experts, x, router_.w, {}, {}, logits);
    probs_ = f_.tensor(tokens_ * spec_.experts, wide);
    gates_ = f_.tensor(tokens_ * spec_.experts_per_token, wide);
    slots_ = f_.tensor(tokens_ * spec_.experts_per_token, DType::I32);
    sources_ = f_.tensor(places_, DType::I32);
    std::vector<TensorId> routed = {probs_, gates_, slots_, sources_};
    if (dropless()) routed.push_back(counts_ = f_.tensor(spec_.experts, DType::I32, "counts"));
    f_.emit(Part::Forward, KernelKind::RouteForward, {routing_, {}, {logits, bias_}, routed});
    arrived_ = counts_;
    if (dropless() && shape_.expert_parallel > 1) {
      arrived_ = f_.tensor(spec_.experts, DType::I32, "expert_counts");
      f_.communicate(Part::Forward, OpKind::AllToAll, "ep", counts_, arrived_);
    }
    rows_.counts = arrived_;
    if (dropless() && rows_.blocks > 1) {
      rows_.counts = f_.tensor(rows_.blocks * spec_.experts, DType::I32, "all_counts");
      f_.communicate(Part::Forward, OpKind::AllGather, shape_.expert_axis(), arrived_,
                     rows_.counts);
    }
  }
  /// The rows of own experts, from all ranks.
  TensorId dispatched(TensorId x) {
    const auto scope = f_.within(ForwardPart::Dispatch);
    const TensorId given = f_.tensor(places_ * hidden_, "dispatched");  // zeros in empty places
    f_.emit(Part::Forward, KernelKind::EmbeddingForward,
            {{places_, hidden_, places_, tokens_}, {}, {sources_, x, {}}, {given}});
    pre_ = f_.tensor(rows_.places * (spec_.is_gated() ? 2 * ffn_ : ffn_));
    return gathered(Part::Forward, to_experts(Part::Forward, given, "expert_x"), "all_x");
  }
  TensorId through_experts(TensorId mine) {
    {
      const auto scope = f_.within(ForwardPart::ExpertUp);
      up_.forward(mine, pre_);
    }
    const TensorId act = f_.tensor(rows_.places * ffn_);
    {
      const auto scope = f_.within(ForwardPart::ExpertActivation);
      activate(pre_, act);
    }
    const auto scope = f_.within(ForwardPart::ExpertDown);
    const TensorId made = f_.tensor(rows_.places * hidden_, "expert_y");
    down_.forward(act, made);
    return made;
  }
  void combine(TensorId made, TensorId added, TensorId residual, TensorId y) {
    const auto scope = f_.within(ForwardPart::Combine);
    combined_ = from_experts(Part::Forward, summed(Part::Forward, made, "made"), "returned");
    const TensorId sum = dropout_.active() ? f_.tensor(tokens_ * hidden_) : y;
    f_.emit(Part::Forward, KernelKind::CombineForward,
            {combination_, {}, {combined_, gates_, slots_, added}, {sum}});
    if (dropout_.active()) dropout_.forward(sum, residual, {}, y);
  }

  bool dropless() const { return rows_.capacity == 0; }
  /// How a kernel learns which experts were chosen.
  std::vector<TensorId> choices() const {
    return dropless() ? std::vector{slots_, counts_} : std::vector{slots_};
  }

  /// [experts, capacity, hidden] of one rank -> [ranks, own experts, capacity, hidden]; without a
  /// capacity, as many rows of each expert as there are.
  TensorId to_experts(Part part, TensorId x, const std::string& name) {
    return exchange(part, x, arriving_, {{counts_, arrived_}, sent(), hidden_}, name);
  }
  /// The reverse.
  TensorId from_experts(Part part, TensorId x, const std::string& name) {
    return exchange(part, x, places_, {{arrived_, counts_}, sent(), hidden_}, name);
  }
  std::int64_t sent() const { return rows_.expected / rows_.blocks; }
  TensorId exchange(Part part, TensorId x, std::int64_t places,
                    const FunctionBuilder::CountedRows& counted, const std::string& name) {
    if (shape_.expert_parallel == 1) return x;
    const TensorId there = f_.tensor(places * hidden_, name);
    if (dropless()) {
      f_.communicate_rows(part, OpKind::AllToAllRows, "ep", x, there, counted);
    } else {
      f_.communicate(part, OpKind::AllToAll, "ep", x, there);
    }
    return there;
  }

  /// Whether there are places to which no row may have come. A rank's own rows fill all of theirs.
  bool is_counted() const { return dropless() && shape_.expert_parallel > 1; }
  FunctionBuilder::CountedRows places() const { return {{rows_.counts}, sent(), hidden_}; }

  /// What came to all ranks that divide each expert.
  TensorId gathered(Part part, TensorId x, const std::string& name) {
    if (rows_.blocks == 1) return x;
    const TensorId all = f_.tensor(rows_.places * hidden_, name);
    if (is_counted()) {
      f_.communicate_rows(part, OpKind::AllGatherRows, shape_.expert_axis(), x, all, places());
    } else {
      f_.communicate(part, OpKind::AllGather, shape_.expert_axis(), x, all);
    }
    return all;
  }
  /// The sum of what they make of it, for the rows that came to this one.
  TensorId summed(Part part, TensorId terms, const std::string& name) {
    if (shape_.expert_tensor_parallel == 1) return terms;
    if (!shape_.sequence_parallel) {
      f_.communicate(part, OpKind::AllReduce, shape_.expert_axis(), terms, terms);
      return terms;
    }
    const TensorId own = f_.tensor(arriving_ * hidden_, name);
    if (is_counted()) {
      f_.communicate_rows(part, OpKind::ReduceScatterRows, shape_.expert_axis(), terms, own,
                          places());
    } else {
      f_.communicate(part, OpKind::ReduceScatter, shape_.expert_axis(), terms, own);
    }
    return own;
  }

  /// The experts' activation, of the rows that there are.
  void activate(TensorId pre, TensorId act) {
    if (!dropless()) return activation_forward(f_, spec_, rows_.places, ffn_, pre, act);
    f_.emit(Part::Forward, KernelKind::RaggedActivationForward,
            {activation(), {}, {pre, rows_.counts}, {act}});
  }
  TensorId through_activation(TensorId dact, TensorId pre) {
    if (!dropless()) return activation_backward(f_, spec_, rows_.places, ffn_, dact, pre);
    const TensorId dpre = spec_.is_gated() ? f_.tensor(rows_.places * 2 * ffn_) : dact;
    f_.emit(Part::InputGrad, KernelKind::RaggedActivationBackward,
            {activation(), {}, {dact, pre, rows_.counts}, {dpre}});
    return dpre;
  }
  std::vector<std::int64_t> activation() const {
    return {
        rows_.places, rows_.expected, ffn_, spec_.is_gated() ? 1 : 0, rows_.groups * rows_.chunks,
        rows_.blocks};
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
  std::int64_t tokens_, hidden_, ffn_;
  RowsOfExperts rows_;
  std::int64_t places_, arriving_;  // of the rank's own rows; of those that are sent to it
  std::int64_t sigmoids_;
  std::vector<std::int64_t> routing_, combination_;  // dimensions of the kernels
  LinearTensors router_;
  Dropout& dropout_;
  TensorId bias_, load_;  // of the experts, for their choice; the load takes the gradient's place
  ExpertLinear up_, down_;
  std::optional<SharedExpert> shared_;
  TensorId x_, probs_, gates_, slots_, sources_, counts_, arrived_, pre_, combined_;
};

}  // namespace

std::unique_ptr<FeedForward> mixture_of_experts(FunctionBuilder& f, TensorParallel& tp,
                                                const ModelSpec& spec, const LayerShape& shape,
                                                const LayerTensors& p, Dropout& dropout) {
  return std::make_unique<MixtureOfExperts>(f, tp, spec, shape, p, dropout);
}

}  // namespace lockstep
