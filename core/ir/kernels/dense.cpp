// Matrix products, and the sum over rows, which is the gradient of their bias.
#include "core/ir/kernels/rows.hpp"

namespace lockstep {

std::vector<KernelRow> rows::dense() {
  return {
      // c (+)= op(a) [m, k] op(b) [k, n] + bias (to each row) + resid
      // If ta, a is stored [k, m]; if tb, b is stored [n, k]. Bias and residual are added in the
      // epilogue of the product and are not counted as flops, as in every published count.
      {.kind = K::Gemm,
       .name = "gemm",
       .dims = words("m n k ta tb"),
       .in = {{"a", "m k", Mixed},
              {"b", "k n", Mixed},
              {"[bias]", "n", Mixed},
              {"[resid]", "m n", Mixed}},
       .out = {{"c", "m n", Mixed, Accumulate}},
       .flops = "2 m n k",
       .may_be_tf32 = true},
      // y (+)= sum of x [rows, cols] over rows
      {.kind = K::ColumnSum,
       .name = "column_sum",
       .dims = words("rows cols"),
       .in = {{"x", "rows cols"}},
       .out = {{"y", "cols", Mixed, Accumulate}},
       .flops = "rows cols"},
  };
}

}  // namespace lockstep
