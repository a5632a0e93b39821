// Matrix products, and the sum over rows, which is the gradient of their bias.
#include "core/base/float8.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {

namespace {

std::string_view bad_blocks(const Kernel& kernel, std::size_t first, std::size_t last) {
  for (std::size_t i = first; i <= last; ++i) {
    if (kernel.dims[i] < 1) return "has a block without elements";
  }
  return "";
}
std::string_view bad_format(double mantissa) {
  return mantissa == kE4M3 || mantissa == kE5M2 ? "" : "has a mantissa of neither 3 nor 2 bits";
}
std::string_view bad_quantize(const Kernel& kernel) {
  const std::string_view blocks = bad_blocks(kernel, 3, 4);
  return blocks.empty() ? bad_format(kernel.scalars[0]) : blocks;
}
/// Blocks of a group's weights and rows are its own, and so are its rows.
std::string_view bad_groups(const Kernel& kernel) {
  const std::int64_t groups = kernel.dims[7], chunks = static_cast<std::int64_t>(kernel.scalars[2]);
  if (groups == 0) return "";
  const bool by_rows = kernel.dims[6] != 0;
  const std::int64_t rows = kernel.dims[by_rows ? 2 : 0];
  if (groups < 0 || chunks < 1 || chunks > rows || groups > rows / chunks ||
      rows % (chunks * groups) != 0) {
    return "has groups of unequal rows";
  }
  const bool whole =
      by_rows ? rows / (chunks * groups) % kernel.dims[5] == 0
              : kernel.dims[1] % kernel.dims[4] == 0 && kernel.dims[2] % kernel.dims[5] == 0;
  return whole ? "" : "has a block of two groups";
}
std::string_view bad_formats(const Kernel& kernel) {
  const std::string_view blocks = bad_blocks(kernel, 3, 5);
  if (!blocks.empty()) return blocks;
  const std::string_view groups = bad_groups(kernel);
  if (!groups.empty()) return groups;
  const std::string_view a = bad_format(kernel.scalars[0]);
  return a.empty() ? bad_format(kernel.scalars[1]) : a;
}

}  // namespace

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
       .tf32 = Tf32::Products},
      // y is x, or its transpose, in 8 bits: of blocks of `across` rows and `along` columns of y,
      // each
      // has a scale, a power of two by which its codes are multiplied (core/base/float8.hpp).
      // `mantissa` is the format's. Elements that are not finite become NaN, and do not count in
      // the
      // scale. Where scales are given, the largest of them is that of all blocks; without y, scales
      // are all that is made. `largest` is the largest magnitude of the elements that are finite.
      {.kind = K::Quantize,
       .name = "quantize",
       .dims = words("rows cols transposed across along given"),
       .scalars = words("mantissa"),
       .in = {{"x", "rows cols"}, {"[others]", "given", Sums}},
       .out = {{"[y]", "rows cols", Byte},
               {"scales",
                "!transposed rows/across cols/along + !!transposed cols/across rows/along", Sums},
               {"[largest]", "1", Sums}},
       .efficiency_as = "add",
       .fault = bad_quantize},
      // c (+)= a [m, k] bᵀ + bias (to each row) + resid, of b [n, k], where a and b are what
      // quantize
      // makes with blocks of `a_across` × `along` and `b_across` × `along`. Sums are taken in the
      // kernel's own type. With `by_rows` 1, k counts rows of samples, so that c is the gradient of
      // a
      // weight. Both factors have k innermost, because tensor cores of compute capability 9.0 take
      // 8 bits in no other way (cuBLAS documentation, cublasLtMatmul).
      // With `groups` above 0 it is a product for each expert, whose rows stand as in grouped_gemm:
      // those of `chunks` ranks, of each rank's those of group 0, of group 1, … b is then [groups,
      // n,
      // k], or [n, groups, k] if `beside` is 1, and bias [groups, n]. With `by_rows` 1 these rows
      // are what k counts, and c is [groups, m, n].
      {.kind = K::ScaledGemm,
       .name = "scaled_gemm",
       .dims = words("m n k a_across b_across along by_rows groups"),
       .scalars = words("a_mantissa b_mantissa chunks beside"),
       .in = {{"a", "m k", Byte},
              {"b", "n k (by_rows + !by_rows (groups + !groups))", Byte},
              {"[bias]", "n (groups + !groups)", Mixed},
              {"[resid]", "m n", Mixed},
              {"a_scales", "m/a_across k/along", Sums},
              {"b_scales", "n/b_across k/along (by_rows + !by_rows (groups + !groups))", Sums}},
       .out = {{"c", "m n (!by_rows + by_rows (groups + !groups))", Mixed, Accumulate}},
       .flops = "2 m n k",
       .fault = bad_formats},
      // y = x, w, dy, the largest magnitudes of a linear layer's factors; where it accumulates, the
      // larger of each and what is there
      {.kind = K::Largest,
       .name = "largest",
       .in = {{"x", "1", Sums}, {"w", "1", Sums}, {"dy", "1", Sums}},
       .out = {{"y", "3", Mixed, Accumulate}},
       .flops = "3",
       .efficiency_as = "add"},
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
