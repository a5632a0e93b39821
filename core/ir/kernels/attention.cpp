// Attention with grouped queries, causal or not, and the rotary positions before it.
#include <cmath>

#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

bool negative_or_not_finite(double x) { return !std::isfinite(x) || x < 0; }

/// The fault of shares that are not equal: every head of keys has equally many query heads, and
/// each rank of a divided sequence holds two pieces of equal length, one from each half of it. Or
/// that of numbers that scores cannot be scaled with or limited to.
std::string_view bad_shares(const Kernel& kernel) {
  const std::int64_t seq = kernel.dims[1], parts = kernel.dims[5];
  const std::int64_t heads = kernel.dims[2], kv_heads = kernel.dims[3];
  if (kv_heads < 1 || heads % kv_heads != 0) return "kv_heads does not divide heads";
  if (parts == 0 && kernel.accumulate) return "adds to what other keys gave, but has none";
  if (kernel.dims[6] < 0) return "scores are negative";
  const double share = kernel.scalars[0];
  if (!(share >= 0 && share < 1)) return "drops a share that is not in [0, 1)";
  if (negative_or_not_finite(kernel.scalars[1])) return "scale is negative or not finite";
  if (negative_or_not_finite(kernel.scalars[2])) return "cap is negative or not finite";
  const std::size_t dropout = kernel.kind == KernelKind::AttentionForward ? 4 : 7;
  const bool given = kernel.in.size() > dropout && kernel.in[dropout].present();
  if (given != (share > 0)) return "drops what it has no keys for, or has keys and drops nothing";
  const std::int64_t whole = kernel.dims[7];
  if (whole != 0 && whole != 1) return "whole is neither 0 nor 1";
  return parts > 0 && seq % 2 != 0 ? "two pieces of odd seq" : "";
}

/// The fault of values that have no room where queries and keys have it, see join_latent.
std::string_view wide_values(const Kernel& kernel) {
  return kernel.dims[4] > kernel.dims[2] + kernel.dims[3] ? "values are wider than queries" : "";
}

}  // namespace

std::vector<KernelRow> rows::attention() {
  const auto dims = words("batch seq heads kv_heads head_dim parts scores whole");
  const auto latent = words("rows heads nope rope value");
  const OperandRow dropout{.name = "[dropout]", .extent = "heads + batch seq", .type = Index};
  return {
      // o = softmax(scale q kᵀ) v for every head; heads / kv_heads queries share a key and a value.
      // If scale is 0, it is the usual 1 / sqrt(head_dim). If cap > 0, a scaled score s becomes
      // cap tanh(s / cap), as in Gemma 2 (Gemma Team 2024, arXiv:2408.00118, section 2), before
      // those are hidden that the query does not see. Wherever scores are meant below, and in lse,
      // they are the capped ones.
      // A query sees no later key, unless `whole` is 1: then it sees all keys.
      //   qkv [batch, seq, heads + 2 kv_heads, head_dim]: query heads, then keys, then values
      //   o [batch, seq, heads, head_dim]
      //   lse [batch, heads, seq]: logarithm of the sum of exp of a row's scores
      // If parts > 0, seq counts the tokens of one of that many ranks, in two pieces of equal
      // length. Keys and values are those of all ranks, kv [parts, batch, seq, 2 kv_heads,
      // head_dim]; those in qkv are not read. starts [parts + 1, 2] says where the pieces begin in
      // the sequence: first the rank's own, then those of each part, of which the very first begins
      // at 0.
      // If it accumulates, o and lse hold the result for other keys, and become that for both: a
      // softmax over all of them. The new keys may all be later than a query, which then keeps its
      // result. Otherwise every query sees a key of the first piece.
      // documents [1 + whole, batch, seq] says where in the sequence the document of a query
      // begins;
      // it sees no earlier key. If whole is 1, it also says where the document ends, behind its
      // last
      // token, from where on the query sees no key. Documents of a later query begin and end no
      // earlier. `scores` is then the number of
      // scores of a sequence and head that one expects, after which the work is counted, and at
      // least 1; without documents it is 0.
      // If share > 0, probabilities are dropped, or kept and divided by 1 - share, as
      // core/base/dropout.hpp says of the key of the query, the layer of the op, the number of the
      // head in the model and the position of the key in the sequence. dropout has the numbers of
      // the heads, then the keys of the queries [batch, seq]; nothing is dropped where they are
      // negative. lse stays that of all scores.
      // Flops: 4 head_dim for each score of the lower triangle with its diagonal, of which a
      // sequence of s keys has (s + 1) / 2 per query; every rank of a divided one has as many, and
      // as many with the keys of each other rank, where there is no diagonal. If whole is 1, all
      // scores of the square count. Dropout adds 2, and in backward 4. A cap adds nothing: its tanh
      // is counted as little as the exponential of the softmax.
      {.kind = K::AttentionForward,
       .name = "attention_forward",
       .dims = dims,
       .scalars = words("share [scale] [cap]"),
       .in = {{.name = "qkv",
               .extent = "batch seq (heads + 2 kv_heads) head_dim",
               .moved = "batch seq (heads + 2 kv_heads !parts) head_dim"},
              {.name = "[kv]",
               .extent = "parts batch seq 2 kv_heads head_dim",
               .given_if = "parts"},
              {.name = "[starts]",
               .extent = "2 (parts + 1) !!parts",
               .type = Index,
               .given_if = "parts"},
              {.name = "[documents]",
               .extent = "(1 + whole) batch seq !!scores",
               .type = Index,
               .given_if = "scores"},
              dropout},
       .out = {{"o", "batch seq heads head_dim", OperandType::Own, Effect::Accumulate},
               {"lse", "batch heads seq", Sums, Effect::Accumulate}},
       .flops =
           "(2 head_dim + [dropout]) batch heads (!scores seq (seq (parts + !parts) (1 + whole) + "
           "!accumulate !whole) +"
           " 2 scores)",
       .width = "head_dim",
       .fault = bad_shares},
      // The gradient of attention_forward, where do is the gradient of o; scores are computed
      // again. Where there is a cap, the gradient of a scaled score is that of the capped one times
      // 1 - (capped / cap)². If there is kv, dqkv gets the gradients of the queries only, and the
      // rest of it
      // stays as it is; the gradients of all ranks' keys and values are in dkv, which is laid out
      // as kv. If it accumulates, the gradients of the queries are added to what dqkv holds. o, lse
      // and do are those of all keys, wherever the others are.
      // Flops: 10 head_dim a score, as every implementation that never stores scores must.
      {.kind = K::AttentionBackward,
       .name = "attention_backward",
       .dims = dims,
       .scalars = words("share [scale] [cap]"),
       .in = {{.name = "qkv",
               .extent = "batch seq (heads + 2 kv_heads) head_dim",
               .moved = "batch seq (heads + 2 kv_heads !parts) head_dim"},
              {"o", "batch seq heads head_dim"},
              {"lse", "batch heads seq", Sums},
              {"do", "batch seq heads head_dim"},
              {.name = "[kv]",
               .extent = "parts batch seq 2 kv_heads head_dim",
               .given_if = "parts"},
              {.name = "[starts]",
               .extent = "2 (parts + 1) !!parts",
               .type = Index,
               .given_if = "parts"},
              {.name = "[documents]",
               .extent = "(1 + whole) batch seq !!scores",
               .type = Index,
               .given_if = "scores"},
              dropout},
       .out = {{.name = "dqkv",
                .extent = "batch seq (heads + 2 kv_heads) head_dim",
                .effect = Effect::Accumulate,
                .moved = "batch seq (heads (1 + accumulate) + 2 kv_heads !parts) head_dim"},
               {.name = "[dkv]",
                .extent = "parts batch seq 2 kv_heads head_dim",
                .given_if = "parts"}},
       .flops = "(5 head_dim + 2 [dropout]) batch heads (!scores seq (seq (parts + !parts) (1 + "
                "whole) + "
                "!accumulate !whole) +"
                " 2 scores)",
       .width = "head_dim",
       .fault = bad_shares},
      // Rotates, in place, the first `heads` of the `row_heads` heads of each position by the
      // position's angles (core/base/rope.hpp). A head has `skip` elements that stay as they are,
      // then head_dim that are rotated, and `tail` that stay, too. Of those that are rotated, i and
      // i + head_dim / 2 are a pair, as in
      // Hugging Face's models. If inverse is 1, the angles are negative. starts has the positions
      // at which the two halves of seq begin; if absent, these are 0 and seq / 2.
      {.kind = K::Rope,
       .name = "rope",
       .dims = words("batch seq heads head_dim row_heads inverse skip [tail]"),
       .scalars = words("theta slowing longest shortest"),
       .in = {{.name = "x",
               .extent = "batch seq row_heads (skip + head_dim + tail)",
               .moved = "batch seq heads head_dim"},
              {"[starts]", "2", Index}},
       .out = {{.name = "x",
                .extent = "batch seq row_heads (skip + head_dim + tail)",
                .moved = "batch seq heads head_dim"}},
       .flops = "3 batch seq heads head_dim"},
      // Lays out what latent attention projects (DeepSeek-V2, arXiv:2405.04434, section 2.1) as
      // attention_forward reads it, with heads of nope + rope elements:
      //   q [rows, heads, nope + rope], kv [rows, heads, nope + value], kr [rows, rope]
      //   qkv [rows, 3 heads, nope + rope]: the query heads; then those of keys, each the first
      //   nope elements of its kv followed by kr, which all heads share; then those of values,
      //   which have nope + rope - value zeros before them
      {.kind = K::JoinLatent,
       .name = "join_latent",
       .dims = latent,
       .in = {{"q", "rows heads (nope + rope)"},
              {"kv", "rows heads (nope + value)"},
              {"kr", "rows rope"}},
       .out = {{"qkv", "rows 3 heads (nope + rope)"}},
       .fault = wide_values},
      // The gradient of join_latent: that of kr is summed over heads, and what lies where there
      // were zeros is not read.
      {.kind = K::PartLatent,
       .name = "part_latent",
       .dims = latent,
       .in = {{.name = "dqkv",
               .extent = "rows 3 heads (nope + rope)",
               .moved = "rows heads (2 (nope + rope) + value)"}},
       .out = {{"dq", "rows heads (nope + rope)"},
               {"dkv", "rows heads (nope + value)"},
               {"dkr", "rows rope"}},
       .flops = "rows heads rope",
       .fault = wide_values},
  };
}

}  // namespace lockstep
