// Mixtures of experts: routing, products by expert, and the sum of the choices.
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

/// A token's choices are different experts, and every expert has room.
std::string_view bad_routing(const Kernel& kernel) {
  const std::int64_t experts = kernel.dims[1], choices = kernel.dims[2], capacity = kernel.dims[3];
  if (choices > experts) return "more choices than experts";
  return capacity < 1 ? "no capacity" : "";
}

}  // namespace

std::vector<KernelRow> rows::experts() {
  const auto routing = words("tokens experts choices capacity sigmoid");
  const auto combination = words("tokens cols choices places");
  return {
      // c[chunk, g] = a[chunk, g] op(b[g]) + bias[g] for every group g and chunk
      //   a [chunks, groups, m, k], c [chunks, groups, m, n], bias [groups, n]
      // If tb, b is stored [groups, n, k], else [groups, k, n].
      {.kind = K::GroupedGemm,
       .name = "grouped_gemm",
       .dims = words("groups chunks m n k tb"),
       .in = {{"a", "groups chunks m k"}, {"b", "groups k n"}, {"[bias]", "groups n", Mixed}},
       .out = {{"c", "groups chunks m n", Mixed}},
       .flops = "2 groups chunks m n k",
       .efficiency_as = "gemm",
       .may_be_tf32 = true},
      // dw[g] (+)= sum over chunks of dy[chunk, g]ᵀ x[chunk, g]
      // dbias[g] (+)= sum over chunks and rows of dy[chunk, g]
      //   dy [chunks, groups, rows, m], x [chunks, groups, rows, n], dw [groups, m, n],
      //   dbias [groups, m]
      {.kind = K::GroupedGemmWeight,
       .name = "grouped_gemm_weight",
       .dims = words("groups chunks rows m n"),
       .in = {{"dy", "groups chunks rows m"}, {"x", "groups chunks rows n"}},
       .out = {{"dw", "groups m n", Mixed, Accumulate}, {"[dbias]", "groups m", Mixed, Accumulate}},
       .flops = "groups chunks rows m (2 n + [dbias])",
       .efficiency_as = "gemm",
       .may_be_tf32 = true},
      // probs [tokens, experts] = softmax(logits); with `sigmoid`, that of every logit by itself
      // (DeepSeek-AI 2024, DeepSeek-V3, equation 15). A token chooses the experts of the largest
      // probs + bias, and of equals the first (the bias: Wang et al. 2024, equation 3). Places go
      // to first choices in the order of tokens, then to second
      // choices, and so on (Lepikhin et al. 2020, algorithm 1).
      //   gates [tokens, choices]: the probabilities of the chosen experts over their sum; with
      //   one choice, the probability itself
      //   slots [tokens, choices]: expert × capacity + place, or -1 - expert if the expert is full
      //   sources [experts, capacity]: the token in each place, or -1
      // Flops: softmax, and a comparison per expert and choice.
      {.kind = K::RouteForward,
       .name = "route_forward",
       .dims = routing,
       .in = {{"logits", "tokens experts", Mixed}, {"[bias]", "experts", Mixed}},
       .out = {{"probs", "tokens experts", Mixed},
               {"gates", "tokens choices", Mixed},
               {"slots", "tokens choices", Index},
               {"sources", "experts capacity", Index}},
       .flops = "tokens experts (4 + choices + [bias])",
       .fault = bad_routing},
      // dlogits: the gradient of route_forward, after balance × experts × (the expert's fraction of
      // all choices) is added to each dprobs, which is the gradient of the auxiliary loss of Fedus
      // et al. 2021, equation 4. With `sigmoid` that loss is of the probabilities over their sum
      // (DeepSeek-V3, equations 17 to 20).
      {.kind = K::RouteBackward,
       .name = "route_backward",
       .dims = routing,
       .scalars = words("balance"),
       .in = {{"dgates", "tokens choices", Mixed},
              {"probs", "tokens experts", Mixed},
              {"slots", "tokens choices", Index},
              {"[loss_scale]", "1", Real}},
       .out = {{"dlogits", "tokens experts", Mixed}},
       .flops = "tokens (5 experts + 4 choices)",
       .fault = bad_routing},
      // load [experts] (+)= how many of the choices are the expert's. Added up over the ranks that
      // hold other tokens of the same microbatch, what route_balance asks for; over all tokens of a
      // step, what router_bias does.
      {.kind = K::RouteLoad,
       .name = "route_load",
       .dims = routing,
       .in = {{"slots", "tokens choices", Index}},
       .out = {{"load", "experts", Mixed, Accumulate}},
       .flops = "tokens choices",
       .fault = bad_routing},
      // y = dlogits + the gradient of the auxiliary loss alone, where route_backward has balance 0
      // because its tokens are a part of those that are balanced: through the softmax (sigmoids) of
      // each token, balance × experts × load / (sum of load) for each dprobs (Fedus et al. 2021,
      // equation 4)
      {.kind = K::RouteBalance,
       .name = "route_balance",
       .dims = words("tokens experts sigmoid"),
       .scalars = words("balance"),
       .in = {{"dlogits", "tokens experts", Mixed},
              {"probs", "tokens experts", Mixed},
              {"load", "experts", Mixed},
              {"[loss_scale]", "1", Real}},
       .out = {{"y", "tokens experts", Mixed}},
       .flops = "5 tokens experts"},
      // y[t] = resid[t] + sum over the choices of t of gates × x[slot], with x [places, cols]; a
      // choice without a place adds nothing
      {.kind = K::CombineForward,
       .name = "combine_forward",
       .dims = combination,
       .in = {{.name = "x", .extent = "places cols", .moved = "min(tokens choices, places) cols"},
              {"gates", "tokens choices", Mixed},
              {"slots", "tokens choices", Index},
              {"[resid]", "tokens cols"}},
       .out = {{"y", "tokens cols"}},
       .flops = "2 tokens cols choices"},
      // dx [places, cols]: gates × dy, zero in empty places; dgates [tokens, choices]: x[slot] · dy
      {.kind = K::CombineBackward,
       .name = "combine_backward",
       .dims = combination,
       .in = {{"dy", "tokens cols"},
              {.name = "x", .extent = "places cols", .moved = "min(tokens choices, places) cols"},
              {"gates", "tokens choices", Mixed},
              {"slots", "tokens choices", Index}},
       .out = {{"dx", "places cols"}, {"dgates", "tokens choices", Mixed}},
       .flops = "3 tokens cols choices"},
      // y = resid + sigmoid(logits) × x, with one logit for each row (Qwen2-MoE's shared expert)
      {.kind = K::GateForward,
       .name = "gate_forward",
       .dims = words("rows cols"),
       .in = {{"x", "rows cols"}, {"logits", "rows", Mixed}, {"[resid]", "rows cols"}},
       .out = {{"y", "rows cols"}},
       .flops = "(1 + [resid]) rows cols"},
      // dx = sigmoid(logits) × dy; dlogits = sigmoid(logits) (1 - sigmoid(logits)) × (x · dy)
      {.kind = K::GateBackward,
       .name = "gate_backward",
       .dims = words("rows cols"),
       .in = {{"dy", "rows cols"}, {"x", "rows cols"}, {"logits", "rows", Mixed}},
       .out = {{"dx", "rows cols"}, {"dlogits", "rows", Mixed}},
       .flops = "3 rows cols"},
  };
}

}  // namespace lockstep
