// Layer norm, RMS norm, norms of heads, and batch norm.
#include "core/ir/kernels/placement.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

using namespace rows;

// Below, xhat is the normalized input: (x - mean) / sqrt(variance + eps), or, for RMS norm, x /
// sqrt(mean of x² + eps).

std::vector<KernelRow> layer_norms() {
  const auto dims = words("rows cols");
  return {
      // y = xhat w + b, over each row of x [rows, cols]
      //   stats [rows, 2]: mean, then 1 / sqrt(variance + eps)
      {.kind = K::LayerNormForward,
       .name = "layer_norm_forward",
       .dims = dims,
       .scalars = words("eps"),
       .in = {{"x", "rows cols"}, {"w", "cols"}, {"b", "cols"}},
       .out = {{"y", "rows cols"}, {"stats", "rows 2", Sums}},
       .flops = "8 rows cols"},
      // dx = the gradient with respect to x + resid; dx may alias resid
      {.kind = K::LayerNormBackwardInput,
       .name = "layer_norm_backward_input",
       .dims = dims,
       .in = {{"dy", "rows cols"},
              {"x", "rows cols"},
              {"w", "cols"},
              {"stats", "rows 2", Sums},
              {"[resid]", "rows cols"}},
       .out = {{"dx", "rows cols"}},
       .flops = "(10 + [resid]) rows cols"},
      // dw (+)= sum over rows of dy xhat; db (+)= sum over rows of dy
      {.kind = K::LayerNormBackwardWeight,
       .name = "layer_norm_backward_weight",
       .dims = dims,
       .in = {{"dy", "rows cols"}, {"x", "rows cols"}, {"stats", "rows 2", Sums}},
       .out = {{"dw", "cols", Mixed, Accumulate}, {"db", "cols", Mixed, Accumulate}},
       .flops = "5 rows cols"},
      // y = xhat w, over each row of x [rows, cols]
      //   stats [rows]: 1 / sqrt(mean of x² + eps)
      {.kind = K::RmsNormForward,
       .name = "rms_norm_forward",
       .dims = dims,
       .scalars = words("eps"),
       .in = {{"x", "rows cols"}, {"w", "cols"}},
       .out = {{"y", "rows cols"}, {"stats", "rows", Sums}},
       .flops = "4 rows cols"},
      // dx = the gradient with respect to x + resid; dx may alias resid
      {.kind = K::RmsNormBackwardInput,
       .name = "rms_norm_backward_input",
       .dims = dims,
       .in = {{"dy", "rows cols"},
              {"x", "rows cols"},
              {"w", "cols"},
              {"stats", "rows", Sums},
              {"[resid]", "rows cols"}},
       .out = {{"dx", "rows cols"}},
       .flops = "(6 + [resid]) rows cols"},
      // dw (+)= sum over rows of dy xhat
      {.kind = K::RmsNormBackwardWeight,
       .name = "rms_norm_backward_weight",
       .dims = dims,
       .in = {{"dy", "rows cols"}, {"x", "rows cols"}, {"stats", "rows", Sums}},
       .out = {{"dw", "cols", Mixed, Accumulate}},
       .flops = "3 rows cols"},
  };
}

// RMS norms of single heads, in rows of queries, keys and values: xhat is that of RMS norm for each
// head of queries and keys; wq is the weight of queries, wk that of keys.
std::vector<KernelRow> head_norms() {
  const auto dims = words("rows heads kv_heads head_dim");
  constexpr const char* kRows = "rows (heads + 2 kv_heads) head_dim";
  constexpr const char* kStats = "rows (heads + kv_heads)";
  return {
      // y = xhat wq or xhat wk; values are copied
      //   stats [rows, heads + kv_heads]: 1 / sqrt(mean of x² + eps)
      {.kind = K::HeadNormForward,
       .name = "head_norm_forward",
       .dims = dims,
       .scalars = words("eps"),
       .in = {{"x", kRows}, {"wq", "head_dim"}, {"wk", "head_dim"}},
       .out = {{"y", kRows}, {"stats", kStats, Sums}},
       .flops = "4 rows (heads + kv_heads) head_dim",
       .efficiency_as = "rms_norm_forward"},
      // dx = the gradient with respect to x; of values, dy
      {.kind = K::HeadNormBackwardInput,
       .name = "head_norm_backward_input",
       .dims = dims,
       .in = {{"dy", kRows},
              {"x", kRows},
              {"wq", "head_dim"},
              {"wk", "head_dim"},
              {"stats", kStats, Sums}},
       .out = {{"dx", kRows}},
       .flops = "6 rows (heads + kv_heads) head_dim",
       .efficiency_as = "rms_norm_backward_input"},
      // dwq (+)= sum over rows and heads of queries of dy xhat; dwk likewise of keys
      {.kind = K::HeadNormBackwardWeight,
       .name = "head_norm_backward_weight",
       .dims = dims,
       .in = {{"dy", kRows}, {"x", kRows}, {"stats", kStats, Sums}},
       .out = {{"dwq", "head_dim", Mixed, Accumulate}, {"dwk", "head_dim", Mixed, Accumulate}},
       .flops = "3 rows (heads + kv_heads) head_dim",
       .efficiency_as = "rms_norm_backward_weight"},
  };
}

// Statistics of batch norm are [2, cols]: the means of all columns, then their variances, over the
// rows and divided by the number of rows.
std::vector<KernelRow> batch_norms() {
  const auto dims = words("rows cols");
  return {
      // stats: the statistics of x [rows, cols]
      {.kind = K::BatchNormStatistics,
       .name = "batch_norm_statistics",
       .dims = dims,
       .in = {{"x", "rows cols"}},
       .out = {{"stats", "2 cols", Sums}},
       .flops = "4 rows cols",
       .place = place_vision},
      // stats: those of all rows, from each [parts, 2, cols], which are statistics of equally many
      // rows
      {.kind = K::BatchNormCombine,
       .name = "batch_norm_combine",
       .dims = words("parts cols"),
       .in = {{"each", "parts 2 cols", Sums}},
       .out = {{"stats", "2 cols", Sums}},
       .flops = "5 parts cols",
       .place = place_vision},
      // running += momentum (stats - running), after the variance of stats is multiplied by
      // correction, which is n / (n - 1) for the unbiased variance of n rows
      {.kind = K::BatchNormRunning,
       .name = "batch_norm_running",
       .dims = words("cols"),
       .scalars = words("momentum correction"),
       .in = {{"stats", "2 cols", Sums}},
       .out = {{"running", "2 cols", Mixed, Update}},
       .flops = "7 cols",
       .place = place_vision},
      // y = xhat w + b + resid
      {.kind = K::BatchNormForward,
       .name = "batch_norm_forward",
       .dims = dims,
       .scalars = words("eps"),
       .in = {{"x", "rows cols"},
              {"w", "cols"},
              {"b", "cols"},
              {"stats", "2 cols", Sums},
              {"[resid]", "rows cols"}},
       .out = {{"y", "rows cols"}},
       .flops = "(4 + [resid]) rows cols",
       .place = place_vision},
      // sums: the sums over rows of dy, then those of dy xhat
      {.kind = K::BatchNormBackwardSums,
       .name = "batch_norm_backward_sums",
       .dims = dims,
       .scalars = words("eps"),
       .in = {{"dy", "rows cols"}, {"x", "rows cols"}, {"stats", "2 cols", Sums}},
       .out = {{"sums", "2 cols", Sums}},
       .flops = "5 rows cols",
       .place = place_vision},
      // dx = w / sqrt(variance + eps) (dy - (sums[0] + xhat sums[1]) / count); dx may alias dy
      //   count: how many rows stats and sums are of
      {.kind = K::BatchNormBackwardInput,
       .name = "batch_norm_backward_input",
       .dims = dims,
       .scalars = words("eps count"),
       .in = {{"dy", "rows cols"},
              {"x", "rows cols"},
              {"w", "cols"},
              {"stats", "2 cols", Sums},
              {"sums", "2 cols", Sums}},
       .out = {{"dx", "rows cols"}},
       .flops = "6 rows cols",
       .place = place_vision},
      // dw (+)= sums[1]; db (+)= sums[0]
      {.kind = K::BatchNormBackwardWeight,
       .name = "batch_norm_backward_weight",
       .dims = words("cols"),
       .in = {{"sums", "2 cols", Sums}},
       .out = {{"dw", "cols", Mixed, Accumulate}, {"db", "cols", Mixed, Accumulate}},
       .flops = "2 cols",
       .place = place_vision},
  };
}

}  // namespace

std::vector<KernelRow> rows::norms() {
  std::vector<KernelRow> all = layer_norms();
  for (KernelRow& row : head_norms()) all.push_back(std::move(row));
  for (KernelRow& row : batch_norms()) all.push_back(std::move(row));
  return all;
}

}  // namespace lockstep
