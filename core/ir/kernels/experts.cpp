// Mixtures of experts: routing, products by expert, and the sum of the choices.
#include "core/base/float8.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

/// A token's choices are different experts.
std::string_view bad_routing(const Kernel& kernel) {
  const std::int64_t experts = kernel.dims[1], choices = kernel.dims[2], capacity = kernel.dims[3];
  if (choices > experts) return "more choices than experts";
  return capacity < 0 ? "a negative capacity" : "";
}

/// More rows cannot be expected than there are places, and blocks have equal parts of them.
std::string_view bad_places(std::int64_t rows, std::int64_t places, std::int64_t chunks,
                            std::int64_t blocks) {
  if (rows < 0 || rows > places) return "more rows than places";
  return blocks < 1 || places % blocks != 0 || chunks % blocks != 0 ? "blocks are unequal" : "";
}
std::string_view bad_rows(const Kernel& kernel) {
  const bool product = kernel.kind == KernelKind::RaggedGemm;
  return bad_places(kernel.dims[3], kernel.dims[2], kernel.dims[1], kernel.dims[product ? 7 : 6]);
}
std::string_view bad_rows_of_activation(const Kernel& kernel) {
  return bad_places(kernel.dims[1], kernel.dims[0], kernel.dims[4], kernel.dims[5]);
}

std::string_view bad_formats(const Kernel& kernel, std::size_t formats) {
  for (std::size_t i = 0; i < formats; ++i) {
    if (kernel.scalars[i] != kE4M3 && kernel.scalars[i] != kE5M2) {
      return "has a mantissa of neither 3 nor 2 bits";
    }
  }
  return "";
}
/// Places in codes of columns are those of whole blocks.
std::string_view bad_padding(std::int64_t padded, std::int64_t along) {
  if (along < 1) return "has a block without elements";
  return padded < 0 || padded % along != 0 ? "has a part of a block" : "";
}
std::string_view bad_ragged_quantize(const Kernel& kernel) {
  const auto& d = kernel.dims;
  if (const auto bad = bad_places(d[2], d[1], d[0], d[6]); !bad.empty()) return bad;
  if (d[4] != 0 && d[4] != 1) return "is neither transposed nor not";
  if (const auto bad = bad_padding(d[7], d[5]); !bad.empty()) return bad;
  return bad_formats(kernel, 1);
}
std::string_view bad_ragged_scaled(const Kernel& kernel) {
  const auto& d = kernel.dims;
  const auto blocks = static_cast<std::int64_t>(kernel.scalars[3]);
  if (const auto bad = bad_places(d[3], d[2], d[1], blocks); !bad.empty()) return bad;
  if (d[6] < 1 || d[7] < 1) return "has a block without elements";
  if (d[4] % d[6] != 0 || d[5] % d[7] != 0) return "has a block of two groups";
  return bad_formats(kernel, 2);
}
std::string_view bad_ragged_scaled_weight(const Kernel& kernel) {
  const auto& d = kernel.dims;
  if (const auto bad = bad_places(d[3], d[2], 1, 1); !bad.empty()) return bad;
  if (const auto bad = bad_padding(d[2], d[6]); !bad.empty()) return bad;
  return bad_formats(kernel, 2);
}

}  // namespace

std::vector<KernelRow> rows::experts() {
  const auto routing = words("tokens experts choices capacity sigmoid");
  const auto combination = words("tokens cols choices places");
  return {
      // c[chunk, g] (+)= a[chunk, g] op(b[g]) + bias[g] for every group g and chunk
      //   a [chunks, groups, m, k], c [chunks, groups, m, n], bias [groups, n]
      // If tb, b is stored [groups, n, k], else [groups, k, n].
      {.kind = K::GroupedGemm,
       .name = "grouped_gemm",
       .dims = words("groups chunks m n k tb"),
       .in = {{"a", "groups chunks m k"}, {"b", "groups k n"}, {"[bias]", "groups n", Mixed}},
       .out = {{"c", "groups chunks m n", Mixed, Accumulate}},
       .flops = "2 groups chunks m n k",
       .efficiency_as = "gemm",
       .tf32 = Tf32::Products},
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
       .tf32 = Tf32::Products},
      // The next two are grouped_gemm and grouped_gemm_weight of as many rows of each group as
      // `counts` [chunks, groups] says, which stand one behind the other: those of chunk 0 for
      // group
      // 0, for group 1, …, then those of chunk 1. If there are several blocks, each has its part of
      // the chunks and of the places, and its rows begin with its first place. Places behind the
      // rows are not touched, and a group without any leaves dw and dbias zero (or what they were,
      // if the kernel accumulates). `rows` is how many are expected, of all groups and chunks,
      // which
      // only costs depend on.
      //   a [places, k], c [places, n]
      {.kind = K::RaggedGemm,
       .name = "ragged_gemm",
       .dims = words("groups chunks places rows n k tb blocks"),
       .in = {{.name = "a", .extent = "places k", .moved = "rows k"},
              {"b", "groups k n"},
              {"[bias]", "groups n", Mixed},
              {"counts", "chunks groups", Index}},
       .out = {{.name = "c",
                .extent = "places n",
                .type = Mixed,
                .effect = Accumulate,
                .moved = "rows n (1 + accumulate)"}},
       .flops = "2 rows n k",
       .efficiency_as = "gemm",
       .tf32 = Tf32::Products,
       .fault = bad_rows},
      //   dy [places, m], x [places, n], dw [groups, m, n], dbias [groups, m]
      {.kind = K::RaggedGemmWeight,
       .name = "ragged_gemm_weight",
       .dims = words("groups chunks places rows m n blocks"),
       .in = {{.name = "dy", .extent = "places m", .moved = "rows m"},
              {.name = "x", .extent = "places n", .moved = "rows n"},
              {"counts", "chunks groups", Index}},
       .out = {{"dw", "groups m n", Mixed, Accumulate}, {"[dbias]", "groups m", Mixed, Accumulate}},
       .flops = "rows m (2 n + [dbias])",
       .efficiency_as = "gemm",
       .tf32 = Tf32::Products,
       .fault = bad_rows},
      // Rows that stand as in ragged_gemm, `parts` of them one behind the other, in 8 bits as
      // quantize makes them, in blocks of 1 x `along`. Transposed, a line of codes has the rows of
      // each part from a new block on, and zeros behind them to the end of its last block: those of
      // part 0, of part 1, …, of all blocks of places without a gap. `padded` is room for the
      // blocks of all parts: places + parts (along - 1), rounded down to a block. Codes and scales
      // behind the last part are not touched. A scale that is `known` is that of all blocks, and
      // `largest` is the largest magnitude of the elements of these rows that are finite, or 0.
      //   x [places, cols]; y and scales [places, cols], [places, cols/along]; transposed
      //   [cols, padded], [cols, padded/along]
      {.kind = K::RaggedQuantize,
       .name = "ragged_quantize",
       .dims = words("parts places rows cols transposed along blocks padded"),
       .scalars = words("mantissa"),
       .in = {{.name = "x", .extent = "places cols", .moved = "rows cols"},
              {"counts", "parts", Index},
              {"[known]", "1", Sums}},
       .out = {{.name = "y",
                .extent = "cols (!transposed places + transposed padded)",
                .type = Byte,
                .moved = "rows cols"},
               {.name = "scales",
                .extent = "!transposed places cols/along + transposed cols padded/along",
                .type = Sums,
                .moved = "!transposed rows cols/along + transposed cols rows/along"},
               {"[largest]", "1", Sums}},
       .efficiency_as = "add",
       .fault = bad_ragged_quantize},
      // ragged_gemm of factors in 8 bits: c = a op(b[g])ᵀ, of a [places, k] in blocks of 1 ×
      // `along`
      // and b [groups, n, k], or [n, groups, k] if `beside` is 1, in blocks of `across` × `along`
      // (scaled_gemm). Sums are taken in the kernel's own type.
      {.kind = K::RaggedScaledGemm,
       .name = "ragged_scaled_gemm",
       .dims = words("groups chunks places rows n k across along"),
       .scalars = words("a_mantissa b_mantissa beside blocks"),
       .in =
           {{.name = "a", .extent = "places k", .type = Byte, .moved = "rows k"},
            {"b", "groups n k", Byte},
            {.name = "a_scales", .extent = "places k/along", .type = Sums, .moved = "rows k/along"},
            {"b_scales", "groups n/across k/along", Sums},
            {"counts", "chunks groups", Index}},
       .out = {{.name = "c", .extent = "places n", .type = Mixed, .moved = "rows n"}},
       .flops = "2 rows n k",
       .efficiency_as = "scaled_gemm",
       .fault = bad_ragged_scaled},
      // ragged_gemm_weight of transposed factors in 8 bits, whose lines ragged_quantize pads: dw[g]
      // (+)= sum over the blocks of group g of dy xᵀ.
      //   dy [m, padded], x [n, padded], dw [groups, m, n]
      {.kind = K::RaggedScaledGemmWeight,
       .name = "ragged_scaled_gemm_weight",
       .dims = words("groups chunks padded rows m n along"),
       .scalars = words("dy_mantissa x_mantissa"),
       .in =
           {{.name = "dy", .extent = "m padded", .type = Byte, .moved = "rows m"},
            {.name = "x", .extent = "n padded", .type = Byte, .moved = "rows n"},
            {.name = "dy_scales",
             .extent = "m padded/along",
             .type = Sums,
             .moved = "m rows/along"},
            {.name = "x_scales", .extent = "n padded/along", .type = Sums, .moved = "n rows/along"},
            {"counts", "chunks groups", Index}},
       .out = {{"dw", "groups m n", Mixed, Accumulate}},
       .flops = "2 rows m n",
       .efficiency_as = "scaled_gemm",
       .fault = bad_ragged_scaled_weight},
      // The first rows of each block of x, as many as `counts` [blocks, parts / blocks] says
      // together, through swiglu_forward if `gated` is 1, else through gelu_forward; the others are
      // not touched. `rows` are expected.
      //   x [places, (1 + gated) cols], y [places, cols]; y may alias x if they are as large
      {.kind = K::RaggedActivationForward,
       .name = "ragged_activation_forward",
       .dims = words("places rows cols gated parts blocks"),
       .in = {{.name = "x", .extent = "places cols (1 + gated)", .moved = "rows cols (1 + gated)"},
              {"counts", "parts", Index}},
       .out = {{.name = "y", .extent = "places cols", .moved = "rows cols"}},
       .flops = "rows cols (9 !gated + 6 gated)",
       .efficiency_as = "swiglu_forward",
       .fault = bad_rows_of_activation},
      // dx: the gradient of x; it may alias dy if they are as large
      {.kind = K::RaggedActivationBackward,
       .name = "ragged_activation_backward",
       .dims = words("places rows cols gated parts blocks"),
       .in = {{.name = "dy", .extent = "places cols", .moved = "rows cols"},
              {.name = "x", .extent = "places cols (1 + gated)", .moved = "rows cols (1 + gated)"},
              {"counts", "parts", Index}},
       .out = {{.name = "dx",
                .extent = "places cols (1 + gated)",
                .moved = "rows cols (1 + gated)"}},
       .flops = "rows cols (17 !gated + 12 gated)",
       .efficiency_as = "swiglu_backward",
       .fault = bad_rows_of_activation},
      // probs [tokens, experts] = softmax(logits); with `sigmoid`, that of every logit by itself
      // (DeepSeek-AI 2024, DeepSeek-V3, equation 15). A token chooses the experts of the largest
      // probs + bias, and of equals the first (the bias: Wang et al. 2024, equation 3). Places go
      // to first choices in the order of tokens, then to second
      // choices, and so on (Lepikhin et al. 2020, algorithm 1).
      //   gates [tokens, choices]: the probabilities of the chosen experts over their sum; with
      //   one choice, the probability itself
      //   slots [tokens, choices]: expert × capacity + place, or -1 - expert if the expert is full
      //   sources [experts, capacity]: the token in each place, or -1
      // With capacity 0 every choice has a place, and there are no others:
      //   counts [experts]: the choices of each expert
      //   slots: those of expert 0 first, then those of expert 1, …; sources [tokens × choices]
      // Flops: softmax, and a comparison per expert and choice.
      {.kind = K::RouteForward,
       .name = "route_forward",
       .dims = routing,
       .in = {{"logits", "tokens experts", Mixed}, {"[bias]", "experts", Mixed}},
       .out = {{"probs", "tokens experts", Mixed},
               {"gates", "tokens choices", Mixed},
               {"slots", "tokens choices", Index},
               {"sources", "experts capacity + tokens choices !capacity", Index},
               {.name = "[counts]", .extent = "experts", .type = Index, .given_if = "!capacity"}},
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
              {"[loss_scale]", "1", Real},
              {.name = "[counts]", .extent = "experts", .type = Index, .given_if = "!capacity"}},
       .out = {{"dlogits", "tokens experts", Mixed}},
       .flops = "tokens (5 experts + 4 choices)",
       .fault = bad_routing},
      // load [experts] (+)= how many of the choices are the expert's. Added up over the ranks that
      // hold other tokens of the same microbatch, what route_balance asks for; over all tokens of a
      // step, what router_bias does.
      {.kind = K::RouteLoad,
       .name = "route_load",
       .dims = routing,
       .in = {{"slots", "tokens choices", Index},
              {.name = "[counts]", .extent = "experts", .type = Index, .given_if = "!capacity"}},
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
