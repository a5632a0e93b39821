// Kernel: one arithmetic operation with all its dimensions, over the formal buffers of a function.
// The set is closed; core/ir/kernels/kernel.cpp holds one table row per kind (names, operands,
// work).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"

namespace lockstep {

enum class KernelKind : std::uint8_t {
  Gemm,
  ColumnSum,
  AttentionForward,
  AttentionBackward,
  LayerNormForward,
  LayerNormBackwardInput,
  LayerNormBackwardWeight,
  RmsNormForward,
  RmsNormBackwardInput,
  RmsNormBackwardWeight,
  GeluForward,
  GeluBackward,
  SwigluForward,
  SwigluBackward,
  Rope,
  EmbeddingForward,
  EmbeddingBackward,
  CrossEntropy,
  CrossEntropyStats,
  CrossEntropyParallel,
  Add,
  Regroup,
  Fill,
  Sum,
  NormSquared,
  ClipCoefficient,
  AdamW,
  Sgd,
  Conv2dForward,
  Conv2dBackwardInput,
  Conv2dBackwardWeight,
  BatchNormStatistics,
  BatchNormCombine,
  BatchNormRunning,
  BatchNormForward,
  BatchNormBackwardSums,
  BatchNormBackwardInput,
  BatchNormBackwardWeight,
  ReluForward,
  ReluBackward,
  MaxPoolForward,
  MaxPoolBackward,
  AveragePoolForward,
  AveragePoolBackward,
  GroupedGemm,
  GroupedGemmWeight,
  RouteForward,
  RouteBackward,
  CombineForward,
  CombineBackward,
  Delay,
};
inline constexpr int kNumKernelKinds = static_cast<int>(KernelKind::Delay) + 1;

/// A tensor: a byte range inside a formal buffer of the function. formal -1: operand absent.
struct Operand {
  std::int16_t formal = -1;
  DType dtype = DType::F32;
  std::int64_t offset = 0;  // bytes from the start of the actual buffer
  bool present() const { return formal >= 0; }
  bool operator==(const Operand&) const = default;
};

inline constexpr int kMaxDims = 8;
inline constexpr int kMaxOperands = 8;

// The table is laid out by hand.
// clang-format off
/// All tensors are dense row-major. `in`, `out`, dims and scalars by kind:
///
/// kind                     dims                  in                       out            scalars
/// gemm                     m n k ta tb           a b [bias n] [resid m,n] c m,n
///    c (+)= op(a)[m,k] op(b)[k,n] + bias (each row) + resid; ta: a is stored [k,m]; tb: b is
///    stored [n,k]
/// column_sum               rows cols             x rows,cols              y cols
///    y (+)= sum over rows
/// attention_forward        batch seq heads kv_heads head_dim parts   qkv [kv] [starts]   o, lse
///    qkv [batch, seq, heads + 2 kv_heads, head_dim]: query heads, then keys, then values; causal;
///    scores scaled by 1/sqrt(head_dim); o [batch, seq, heads, head_dim];
///    lse [batch, heads, seq]: log of the sum of exp of a row's scores
///    parts > 0: seq are the tokens of one of as many ranks, in two pieces of equal length; keys and
///    values are of all, kv [parts, batch, seq, 2 kv_heads, head_dim], and those in qkv not read;
///    starts [parts + 1, 2]: where the pieces begin in the sequence, own ones first, then by part,
///    of which the very first begins at 0
/// attention_backward       same                  qkv o lse do [kv] [starts]  dqkv [dkv]
///    with kv, dqkv holds gradients of queries only; those of all keys and values are in dkv
/// layer_norm_forward       rows cols             x w b                    y, stats [rows, 2]   eps
///    stats: mean, then 1/sqrt(var + eps)
/// layer_norm_backward_input   rows cols          dy x w stats [resid]     dx (= resid + …)
/// layer_norm_backward_weight  rows cols          dy x stats               dw, db  ((+)=)
/// rms_norm_forward         rows cols             x w                      y, stats [rows]      eps
/// rms_norm_backward_input  rows cols             dy x w stats [resid]     dx (= resid + …)
/// rms_norm_backward_weight rows cols             dy x stats               dw  ((+)=)
/// gelu_forward             n                     x                        y      (tanh form)
/// gelu_backward            n                     dy x                     dx     (may alias dy)
/// swiglu_forward           rows cols             x rows,2cols             y = silu(x[:,:cols]) *
///                                                                             x[:,cols:]
/// swiglu_backward          rows cols             dy x                     dx rows,2cols
/// rope                     batch seq heads head_dim row_heads inverse   x [starts 2]   x   theta
///    rotates the first `heads` of the `row_heads` heads of each position by its angle, halves
///    paired (i, i + head_dim/2) as in Hugging Face; inverse 1: by the negative angle; in place;
///    starts: positions at which the two halves of seq begin
/// embedding_forward        tokens cols seq vocab ids table [positions]    y
///    y[t] = table[ids[t]] + positions[t % seq]; ids outside [0, vocab) stand for a row of zeros
/// embedding_backward       tokens cols seq vocab ids dy                   dtable, [dpositions]
///    adds into dtable, but for ids outside [0, vocab); not accumulating: zeroes both first
/// cross_entropy            rows cols             logits targets           dlogits (aliases), loss 1
///    loss (+)= scale * sum of -log softmax(logits)[target]; dlogits = scale * d(sum)/dlogits scale
/// cross_entropy_stats      rows cols             logits targets [columns 1]  stats [rows, 3]
///    of a part of the vocabulary: largest logit, sum of exp(logit - largest), logit of the target,
///    or -infinity where the target lies outside [0, cols); only the first `columns` count
/// cross_entropy_parallel   rows cols parts       logits targets stats [columns 1]
///    stats [parts, rows, 3], of all parts: loss of the whole      dlogits (aliases), loss 1   scale
///    vocabulary, dlogits of this part; zero from `columns` on
/// add                      rows cols             x resid [bias cols]      y = x + resid + bias
/// regroup                  rows parts a b c inverse skip   x              y
///    x [rows, skip + parts (a + b + c)]: sections of parts × a, × b and × c columns behind skip
///    others; y [parts, rows, a + b + c]: of every section its p-th part, p by p; inverse 1: the
///    other way, x is out, its first skip columns stay
/// fill                     n                     -                        y                    value
/// sum                      n                     x                        y 1  ((+)=)
/// norm_squared             n blocks              x                        y blocks (+)= sum of x²
///    over blocks of ceil(n / blocks) elements, in order
/// clip_coefficient         blocks                sq blocks                coef 1, norm 1  max_norm
///    norm = sqrt(sum sq in order); coef = min(1, max_norm / (norm + 1e-6)); max_norm 0: coef 1
/// adamw                    n                     grad [coef]              w m v  beta1 beta2 eps decay
///    gradient times coef; learning rate and step number come from the run (StepContext)
/// sgd                      n                     grad [coef]              w v         momentum decay
///    v = momentum v + (grad coef + decay w); w -= lr v (torch.optim.SGD)
/// conv2d_forward           batch height width in out kernel stride        x w            y
///    channels last: x [batch, height, width, in], w [out, kernel, kernel, in], y [batch, height',
///    width', out]; padded by (kernel - 1) / 2, so that height' = ceil(height / stride); odd kernels
/// conv2d_backward_input    same                  dy w [resid]             dx (= resid + …)
/// conv2d_backward_weight   same                  dy x                     dw  ((+)=)
/// batch_norm_statistics    rows cols             x                        stats [2, cols]
///    of every column: mean, then variance over the rows (divided by rows)
/// batch_norm_combine       parts cols            each [parts, 2, cols]    stats [2, cols]
///    statistics of as many rows each -> of all rows
/// batch_norm_running       cols                  stats                    running (in place) momentum
///    running += momentum (stats - running), its variance times correction first       correction
/// batch_norm_forward       rows cols             x w b stats [resid]      y                    eps
///    y = (x - mean) / sqrt(var + eps) w + b + resid
/// batch_norm_backward_sums rows cols             dy x stats               sums [2, cols]       eps
///    sums over rows of dy, then of dy xhat
/// batch_norm_backward_input rows cols            dy x w stats sums        dx (may alias dy)
///    dx = w / sqrt(var + eps) (dy - (sums[0] + xhat sums[1]) / count)                   eps count
/// batch_norm_backward_weight cols                sums                     dw db ((+)=)
/// relu_forward             n                     x                        y      (may alias x)
/// relu_backward            n                     dy y                     dx     (may alias dy)
/// max_pool_forward         batch height width channels kernel stride      x              y
///    padded as conv2d; padding never is the largest
/// max_pool_backward        same                  dy x                     dx
///    to the first of the largest inputs of a window, row by row
/// average_pool_forward     batch positions cols  x                        y [batch, cols]
/// average_pool_backward    batch positions cols  dy                       dx
/// grouped_gemm             groups chunks m n k tb   a b [bias groups,n]   c
///    for every group g and chunk: c[chunk, g] = a[chunk, g] op(b[g]) + bias[g]; a [chunks, groups,
///    m, k], c [chunks, groups, m, n]; tb: b is stored [groups, n, k], else [groups, k, n]
/// grouped_gemm_weight      groups chunks rows m n   dy x                  dw, [dbias]  ((+)=)
///    dw[g] (+)= sum over chunks of dy[chunk, g]ᵀ x[chunk, g], dbias[g] of the rows of dy; dy [chunks,
///    groups, rows, m], x [chunks, groups, rows, n], dw [groups, m, n], dbias [groups, m]
/// route_forward            tokens experts choices capacity  logits        probs, gates, slots, sources
///    probs [tokens, experts]: softmax of logits. A token chooses the most probable experts, of equals
///    the first; gates [tokens, choices]: their probabilities over the sum of these, of one choice as
///    it is. Places go to first choices in the order of tokens, then to second ones, … ; slots
///    [tokens, choices]: expert × capacity + place, or -1 - expert, which is full; sources [experts,
///    capacity]: the token in each place, -1: none (Lepikhin et al. 2020, algorithm 1)
/// route_backward           same                  dgates probs slots       dlogits              balance
///    adds balance × experts × (the part of all choices that is the expert's) to each dprobs: the
///    gradient of the auxiliary loss of Fedus et al. 2021, equation 4
/// combine_forward          tokens cols choices places  x gates slots [resid]  y
///    y[t] = resid[t] + sum over choices of gates × x[slot]; x [places, cols]; no place adds nothing
/// combine_backward         same                  dy x gates slots         dx, dgates
///    dx: zero in empty places
/// delay                    -                     -                        -                    seconds
// clang-format on
struct Kernel {
  KernelKind kind = KernelKind::Delay;
  bool accumulate = false;  // (+)= above: add to the output instead of overwriting it
  bool stochastic = false;  // adamw in bfloat16: w is rounded at random (core/base/random_rounding)
  DType dtype = DType::F32;  // arithmetic type of the main operands
  std::array<std::int64_t, kMaxDims> dims{};
  std::array<double, 4> scalars{};
  std::vector<Operand> in;  // by position above; absent optional operands have formal -1
  std::vector<Operand> out;
  bool operator==(const Kernel&) const = default;
};

struct KernelInfo {
  std::string_view name;                  // as in the program text and in traces
  std::vector<std::string_view> dims;     // names of the dims in use
  std::vector<std::string_view> scalars;  // names of the scalars in use
  std::vector<std::string_view> in, out;  // names of the operands; "[x]" is optional
};
const KernelInfo& info(KernelKind kind);

/// Elements of operand `in[i]` / `out[i]`; 0 if absent.
std::int64_t input_elements(const Kernel& kernel, std::size_t i);
std::int64_t output_elements(const Kernel& kernel, std::size_t i);

/// True for kernels whose outputs keep a part of what they held, or are computed from it.
bool updates_in_place(const Kernel& kernel);

/// True if the kernel reads out[i] before it writes it (accumulation, in-place update).
bool output_is_read(const Kernel& kernel, std::size_t i);

struct Work {
  Flops flops;
  Bytes bytes;                            // read + written, each operand once
  friend Work operator+(Work a, Work b);  // bytes saturate, as in work()
  bool operator==(const Work&) const = default;
};
/// Source of the formulas: one multiply-add is two flops; causal attention counts the lower
/// triangle with the diagonal, forward 4·D and backward 10·D flops per score and head (scores are
/// recomputed, as every implementation that never stores them must).
Work work(const Kernel& kernel);

}  // namespace lockstep
