#include "core/ir/kernels/kernel.hpp"

#include <algorithm>
#include <array>

#include "core/ir/kernels/experts.hpp"
#include "core/ir/kernels/saturating.hpp"
#include "core/ir/kernels/vision.hpp"

namespace lockstep {
namespace {

using K = KernelKind;
using saturating::plus;
using saturating::product;
using saturating::times;

const std::array<KernelInfo, kNumKernelKinds>& table() {
  static const std::vector<std::string_view> convolution = {"batch", "height", "width", "in",
                                                            "out",   "kernel", "stride"};
  static const std::vector<std::string_view> pooling = {"batch",    "height", "width",
                                                        "channels", "kernel", "stride"};
  static const std::vector<std::string_view> routing = {"tokens", "experts", "choices", "capacity"};
  static const std::vector<std::string_view> combination = {"tokens", "cols", "choices", "places"};
  static const std::array<KernelInfo, kNumKernelKinds> rows = {{
      {"gemm", {"m", "n", "k", "ta", "tb"}, {}, {"a", "b", "[bias]", "[resid]"}, {"c"}},
      {"column_sum", {"rows", "cols"}, {}, {"x"}, {"y"}},
      {"attention_forward",
       {"batch", "seq", "heads", "kv_heads", "head_dim", "parts"},
       {},
       {"qkv", "[kv]", "[starts]"},
       {"o", "lse"}},
      {"attention_backward",
       {"batch", "seq", "heads", "kv_heads", "head_dim", "parts"},
       {},
       {"qkv", "o", "lse", "do", "[kv]", "[starts]"},
       {"dqkv", "[dkv]"}},
      {"layer_norm_forward", {"rows", "cols"}, {"eps"}, {"x", "w", "b"}, {"y", "stats"}},
      {"layer_norm_backward_input",
       {"rows", "cols"},
       {},
       {"dy", "x", "w", "stats", "[resid]"},
       {"dx"}},
      {"layer_norm_backward_weight", {"rows", "cols"}, {}, {"dy", "x", "stats"}, {"dw", "db"}},
      {"rms_norm_forward", {"rows", "cols"}, {"eps"}, {"x", "w"}, {"y", "stats"}},
      {"rms_norm_backward_input",
       {"rows", "cols"},
       {},
       {"dy", "x", "w", "stats", "[resid]"},
       {"dx"}},
      {"rms_norm_backward_weight", {"rows", "cols"}, {}, {"dy", "x", "stats"}, {"dw"}},
      {"gelu_forward", {"n"}, {}, {"x"}, {"y"}},
      {"gelu_backward", {"n"}, {}, {"dy", "x"}, {"dx"}},
      {"swiglu_forward", {"rows", "cols"}, {}, {"x"}, {"y"}},
      {"swiglu_backward", {"rows", "cols"}, {}, {"dy", "x"}, {"dx"}},
      {"rope",
       {"batch", "seq", "heads", "head_dim", "row_heads", "inverse"},
       {"theta"},
       {"x", "[starts]"},
       {"x"}},
      {"embedding_forward",
       {"tokens", "cols", "seq", "vocab"},
       {},
       {"ids", "table", "[positions]"},
       {"y"}},
      {"embedding_backward",
       {"tokens", "cols", "seq", "vocab"},
       {},
       {"ids", "dy"},
       {"dtable", "[dpositions]"}},
      {"cross_entropy", {"rows", "cols"}, {"scale"}, {"logits", "targets"}, {"dlogits", "loss"}},
      {"cross_entropy_stats", {"rows", "cols"}, {}, {"logits", "targets", "[columns]"}, {"stats"}},
      {"cross_entropy_parallel",
       {"rows", "cols", "parts"},
       {"scale"},
       {"logits", "targets", "stats", "[columns]"},
       {"dlogits", "loss"}},
      {"add", {"rows", "cols"}, {}, {"x", "resid", "[bias]"}, {"y"}},
      {"regroup", {"rows", "parts", "a", "b", "c", "inverse", "skip"}, {}, {"x"}, {"y"}},
      {"fill", {"n"}, {"value"}, {}, {"y"}},
      {"sum", {"n"}, {}, {"x"}, {"y"}},
      {"norm_squared", {"n", "blocks"}, {}, {"x"}, {"y"}},
      {"clip_coefficient", {"blocks"}, {"max_norm"}, {"sq"}, {"coef", "norm"}},
      {"adamw", {"n"}, {"beta1", "beta2", "eps", "decay"}, {"grad", "[coef]"}, {"w", "m", "v"}},
      {"sgd", {"n"}, {"momentum", "decay"}, {"grad", "[coef]"}, {"w", "v"}},
      {"conv2d_forward", convolution, {}, {"x", "w"}, {"y"}},
      {"conv2d_backward_input", convolution, {}, {"dy", "w", "[resid]"}, {"dx"}},
      {"conv2d_backward_weight", convolution, {}, {"dy", "x"}, {"dw"}},
      {"batch_norm_statistics", {"rows", "cols"}, {}, {"x"}, {"stats"}},
      {"batch_norm_combine", {"parts", "cols"}, {}, {"each"}, {"stats"}},
      {"batch_norm_running", {"cols"}, {"momentum", "correction"}, {"stats"}, {"running"}},
      {"batch_norm_forward", {"rows", "cols"}, {"eps"}, {"x", "w", "b", "stats", "[resid]"}, {"y"}},
      {"batch_norm_backward_sums", {"rows", "cols"}, {"eps"}, {"dy", "x", "stats"}, {"sums"}},
      {"batch_norm_backward_input",
       {"rows", "cols"},
       {"eps", "count"},
       {"dy", "x", "w", "stats", "sums"},
       {"dx"}},
      {"batch_norm_backward_weight", {"cols"}, {}, {"sums"}, {"dw", "db"}},
      {"relu_forward", {"n"}, {}, {"x"}, {"y"}},
      {"relu_backward", {"n"}, {}, {"dy", "y"}, {"dx"}},
      {"max_pool_forward", pooling, {}, {"x"}, {"y"}},
      {"max_pool_backward", pooling, {}, {"dy", "x"}, {"dx"}},
      {"average_pool_forward", {"batch", "positions", "cols"}, {}, {"x"}, {"y"}},
      {"average_pool_backward", {"batch", "positions", "cols"}, {}, {"dy"}, {"dx"}},
      {"grouped_gemm", {"groups", "chunks", "m", "n", "k", "tb"}, {}, {"a", "b", "[bias]"}, {"c"}},
      {"grouped_gemm_weight",
       {"groups", "chunks", "rows", "m", "n"},
       {},
       {"dy", "x"},
       {"dw", "[dbias]"}},
      {"route_forward", routing, {}, {"logits"}, {"probs", "gates", "slots", "sources"}},
      {"route_backward", routing, {"balance"}, {"dgates", "probs", "slots"}, {"dlogits"}},
      {"combine_forward", combination, {}, {"x", "gates", "slots", "[resid]"}, {"y"}},
      {"combine_backward", combination, {}, {"dy", "x", "gates", "slots"}, {"dx", "dgates"}},
      {"delay", {}, {"seconds"}, {}, {}},
  }};
  return rows;
}

/// Of either side; one of them has columns that are skipped, too.
std::int64_t regrouped(const Kernel& kernel, bool with_skipped) {
  const auto& d = kernel.dims;
  const std::int64_t columns = times(d[1], plus(d[2], plus(d[3], d[4])));
  return times(d[0], with_skipped ? plus(columns, d[6]) : columns);
}

/// What gathered attention reads and writes of keys and values, and where pieces begin.
std::int64_t gathered_extent(const Kernel& kernel) {
  const auto& d = kernel.dims;
  return product(d[5], d[0], d[1], times(2, d[3]), d[4]);
}
std::int64_t starts_extent(const Kernel& kernel) {
  const std::int64_t parts = kernel.dims[5];
  return parts == 0 ? 0 : times(2, plus(parts, 1));
}

// Elements of the operand as stored, whether present or not.
std::int64_t input_extent(const Kernel& kernel, std::size_t i) {
  const auto& d = kernel.dims;
  switch (kernel.kind) {
    case K::Gemm: {
      const std::array<std::int64_t, 4> extent = {times(d[0], d[2]), times(d[2], d[1]), d[1],
                                                  times(d[0], d[1])};
      return i < extent.size() ? extent[i] : 0;
    }
    case K::AttentionForward:
      if (i > 0) return i == 1 ? gathered_extent(kernel) : starts_extent(kernel);
      return product(d[0], d[1], plus(d[2], times(2, d[3])), d[4]);
    case K::AttentionBackward:
      if (i > 3) return i == 4 ? gathered_extent(kernel) : starts_extent(kernel);
      if (i == 0) return product(d[0], d[1], plus(d[2], times(2, d[3])), d[4]);
      if (i == 2) return product(d[0], d[2], d[1]);
      return product(d[0], d[1], d[2], d[4]);
    case K::LayerNormForward:
    case K::RmsNormForward:
      return i == 0 ? times(d[0], d[1]) : d[1];
    case K::LayerNormBackwardInput:
    case K::RmsNormBackwardInput:
      if (i == 2) return d[1];
      if (i == 3) return kernel.kind == K::LayerNormBackwardInput ? times(2, d[0]) : d[0];
      return times(d[0], d[1]);
    case K::LayerNormBackwardWeight:
      return i == 2 ? times(2, d[0]) : times(d[0], d[1]);
    case K::RmsNormBackwardWeight:
      return i == 2 ? d[0] : times(d[0], d[1]);
    case K::SwigluForward:
      return product(d[0], 2, d[1]);
    case K::SwigluBackward:
      return i == 0 ? times(d[0], d[1]) : product(d[0], 2, d[1]);
    case K::Rope:
      return i == 1 ? 2 : product(d[0], d[1], d[4], d[3]);
    case K::EmbeddingForward:
      if (i == 0) return d[0];
      return times(i == 1 ? d[3] : d[2], d[1]);
    case K::EmbeddingBackward:
      return i == 0 ? d[0] : times(d[0], d[1]);
    case K::CrossEntropy:
      return i == 0 ? times(d[0], d[1]) : d[0];
    case K::CrossEntropyStats:
      return i == 0 ? times(d[0], d[1]) : i == 1 ? d[0] : 1;
    case K::CrossEntropyParallel:
      if (i == 2) return product(d[2], d[0], 3);
      return i == 0 ? times(d[0], d[1]) : i == 1 ? d[0] : 1;
    case K::Add:
      return i == 2 ? d[1] : times(d[0], d[1]);
    case K::ColumnSum:
      return times(d[0], d[1]);
    case K::Regroup:
      return regrouped(kernel, d[5] == 0);
    case K::GeluForward:
    case K::GeluBackward:
    case K::Sum:
    case K::NormSquared:
    case K::ClipCoefficient:
      return d[0];
    case K::AdamW:
    case K::Sgd:
      return i == 0 ? d[0] : 1;
    case K::Fill:
    case K::Delay:
      return 0;
    default:
      return is_experts(kernel.kind) ? experts_input_extent(kernel, i)
                                     : vision_input_extent(kernel, i);
  }
}

std::int64_t output_extent(const Kernel& kernel, std::size_t i) {
  const auto& d = kernel.dims;
  switch (kernel.kind) {
    case K::Gemm:
    case K::LayerNormBackwardInput:
    case K::RmsNormBackwardInput:
    case K::EmbeddingForward:
    case K::SwigluForward:
      return times(d[0], d[1]);
    case K::ColumnSum:
    case K::LayerNormBackwardWeight:
    case K::RmsNormBackwardWeight:
      return d[1];
    case K::AttentionForward:
      return i == 0 ? product(d[0], d[1], d[2], d[4]) : product(d[0], d[2], d[1]);
    case K::AttentionBackward:
      return i == 1 ? gathered_extent(kernel)
                    : product(d[0], d[1], plus(d[2], times(2, d[3])), d[4]);
    case K::LayerNormForward:
      return i == 0 ? times(d[0], d[1]) : times(2, d[0]);
    case K::RmsNormForward:
      return i == 0 ? times(d[0], d[1]) : d[0];
    case K::SwigluBackward:
      return product(d[0], 2, d[1]);
    case K::Rope:
      return product(d[0], d[1], d[4], d[3]);
    case K::EmbeddingBackward:
      return times(i == 0 ? d[3] : d[2], d[1]);
    case K::CrossEntropy:
    case K::CrossEntropyParallel:
      return i == 0 ? times(d[0], d[1]) : 1;
    case K::CrossEntropyStats:
      return times(d[0], 3);
    case K::Add:
      return times(d[0], d[1]);
    case K::Regroup:
      return regrouped(kernel, d[5] != 0);
    case K::GeluForward:
    case K::GeluBackward:
    case K::Fill:
    case K::AdamW:
    case K::Sgd:
      return d[0];
    case K::Sum:
    case K::ClipCoefficient:
      return 1;
    case K::NormSquared:
      return d[1];
    case K::Delay:
      return 0;
    default:
      return is_experts(kernel.kind) ? experts_output_extent(kernel, i)
                                     : vision_output_extent(kernel, i);
  }
}

bool has(const std::vector<Operand>& operands, std::size_t i) {
  return i < operands.size() && operands[i].present();
}

// Arithmetic per element of the main operand: adds, multiplies and divisions, and one for each exp,
// tanh, log or square root. Only matrix products and attention matter for time; these are counted
// so that a kernel's arithmetic intensity is honest. The bias and residual of a product ride in its
// epilogue and are not counted, as in every published flop count.
double flops(const Kernel& kernel) {
  const auto d = [&](int i) {
    return static_cast<double>(kernel.dims[static_cast<std::size_t>(i)]);
  };
  const double elements = d(0) * d(1);
  switch (kernel.kind) {
    case K::Gemm:
      return 2 * d(0) * d(1) * d(2);
    case K::AttentionForward:
    case K::AttentionBackward: {
      const double keys = d(5) == 0 ? d(1) : d(5) * d(1);  // parts have as many scores each
      const double scores = d(1) * (keys + 1) / 2;
      const double per_score = kernel.kind == K::AttentionForward ? 4 : 10;
      return per_score * d(4) * scores * d(0) * d(2);
    }
    case K::ColumnSum:
      return elements;
    case K::LayerNormForward:
      return 8 * elements;
    case K::LayerNormBackwardInput:
      return (has(kernel.in, 4) ? 11 : 10) * elements;
    case K::LayerNormBackwardWeight:
      return 5 * elements;
    case K::RmsNormForward:
      return 4 * elements;
    case K::RmsNormBackwardInput:
      return (has(kernel.in, 4) ? 7 : 6) * elements;
    case K::RmsNormBackwardWeight:
      return 3 * elements;
    case K::GeluForward:
      return 9 * d(0);
    case K::GeluBackward:
      return 17 * d(0);
    case K::SwigluForward:
      return 6 * elements;
    case K::SwigluBackward:
      return 12 * elements;
    case K::Rope:
      return 3 * d(0) * d(1) * d(2) * d(3);
    case K::EmbeddingForward:
      return has(kernel.in, 2) ? elements : 0;
    case K::EmbeddingBackward:
      return (has(kernel.out, 1) ? 2 : 1) * elements;
    case K::CrossEntropy:
      return 6 * elements;
    case K::CrossEntropyStats:
      return 4 * elements;
    case K::CrossEntropyParallel:
      return 3 * elements;
    case K::Add:
      return (has(kernel.in, 2) ? 2 : 1) * elements;
    case K::Sum:
      return d(0);
    case K::NormSquared:
      return 2 * d(0);
    case K::ClipCoefficient:
      return d(0);
    case K::AdamW:
      return 16 * d(0);
    case K::Sgd:
      return 7 * d(0);
    case K::Regroup:
    case K::Fill:
    case K::Delay:
      return 0;
    default:
      return is_experts(kernel.kind) ? experts_flops(kernel) : vision_flops(kernel);
  }
}

bool queries_only(const Kernel& kernel, std::size_t i) {
  const bool attention = kernel.kind == K::AttentionForward || kernel.kind == K::AttentionBackward;
  return attention && i == 0 && kernel.dims[5] > 0;
}

// Elements of in[i] that are read: all of it, but for the rows that an embedding or the
// choices of tokens pick, the heads that rotary positions turn, queries beside keys that come from
// elsewhere, what is skipped.
std::int64_t elements_read(const Kernel& kernel, std::size_t i) {
  if (!has(kernel.in, i)) return 0;
  const auto& d = kernel.dims;
  if (kernel.kind == K::EmbeddingForward && i == 1) return times(d[0], d[1]);
  if (kernel.kind == K::Rope && i == 0) return product(d[0], d[1], d[2], d[3]);
  if (kernel.kind == K::Regroup) return regrouped(kernel, false);
  if (queries_only(kernel, i)) return product(d[0], d[1], d[2], d[4]);
  const bool places =
      (kernel.kind == K::CombineForward && i == 0) || (kernel.kind == K::CombineBackward && i == 1);
  if (places) return times(std::min(times(d[0], d[2]), d[3]), d[1]);
  return input_extent(kernel, i);
}

// Elements of out[i] that are moved: written, and read before where the kernel updates in place.
std::int64_t elements_updated(const Kernel& kernel, std::size_t i) {
  if (!has(kernel.out, i)) return 0;
  const auto& d = kernel.dims;
  if (kernel.kind == K::EmbeddingBackward && i == 0) {
    const std::int64_t touched = times(2, times(d[0], d[1]));
    return kernel.accumulate ? touched : plus(touched, times(d[3], d[1]));  // zeroed first
  }
  if (kernel.kind == K::Rope) return product(d[0], d[1], d[2], d[3]);
  if (kernel.kind == K::Regroup) return regrouped(kernel, false);
  if (kernel.kind == K::AttentionBackward && queries_only(kernel, i)) {
    return product(d[0], d[1], d[2], d[4]);
  }
  const std::int64_t extent = output_extent(kernel, i);
  return output_is_read(kernel, i) ? times(2, extent) : extent;
}

}  // namespace

bool updates_in_place(const Kernel& kernel) {
  switch (kernel.kind) {
    case K::AdamW:
    case K::Sgd:
    case K::BatchNormRunning:
      return true;
    case K::Regroup:
      return kernel.dims[5] != 0 && kernel.dims[6] > 0;
    default:
      return false;
  }
}

const KernelInfo& info(KernelKind kind) { return table()[static_cast<std::size_t>(kind)]; }

std::int64_t input_elements(const Kernel& kernel, std::size_t i) {
  return has(kernel.in, i) ? input_extent(kernel, i) : 0;
}

std::int64_t output_elements(const Kernel& kernel, std::size_t i) {
  return has(kernel.out, i) ? output_extent(kernel, i) : 0;
}

bool output_is_read(const Kernel& kernel, std::size_t i) {
  if (!has(kernel.out, i)) return false;
  if (updates_in_place(kernel)) return true;
  // Its gradient of the logits overwrites; only the loss adds up.
  if (kernel.kind == K::CrossEntropy || kernel.kind == K::CrossEntropyParallel) {
    return kernel.accumulate && i == 1;
  }
  return kernel.accumulate;
}

Work operator+(Work a, Work b) { return {a.flops + b.flops, Bytes{plus(a.bytes.v, b.bytes.v)}}; }

Work work(const Kernel& kernel) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < kernel.in.size(); ++i) {
    bytes = plus(bytes, times(elements_read(kernel, i), size_of(kernel.in[i].dtype)));
  }
  for (std::size_t i = 0; i < kernel.out.size(); ++i) {
    bytes = plus(bytes, times(elements_updated(kernel, i), size_of(kernel.out[i].dtype)));
  }
  return {Flops{flops(kernel)}, Bytes{bytes}};
}

}  // namespace lockstep
