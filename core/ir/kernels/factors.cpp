// Adafactor (Shazeer and Stern 2018): second moments of a matrix by its rows and columns.
//
// Each of these kernels is of one parameter of a unit, which lies there as `count` matrices of
// `rows` rows, together `size` elements from element `first` of the unit on. A vector is a matrix
// of one column. A rank has `n` elements of the unit: of member `shard` of those that shard it, the
// elements [shard n, (shard + 1) n). What it has of the parameter is about `size` / `shards`
// elements, and its sums are terms of sums over the members. `divided` says whether other ranks
// have more rows (1) or more columns (2) of these matrices: the sums over what is divided are
// terms, too.
#include "core/ir/kernels/placement.hpp"
#include "core/ir/kernels/rows.hpp"

namespace lockstep {
namespace {

std::string_view no_matrices(const Kernel& kernel) {
  const auto& d = kernel.dims;
  const bool whole =
      d[2] > 0 && d[3] > 0 && d[4] > 0 && d[4] % d[2] == 0 && d[4] / d[2] % d[3] == 0;
  if (!whole) return "its elements are no matrices of so many rows";
  if (d[5] > 2) return "divided is 0, 1 (by rows) or 2 (by columns)";
  const std::size_t shard = kernel.kind == KernelKind::FactorSums        ? 3
                            : kernel.kind == KernelKind::FactoredSquares ? 4
                                                                         : 6;
  const bool given = shard < kernel.in.size() && kernel.in[shard].present();
  if (given != (d[6] > 1)) return "the position among several shards has to be given, and no other";
  return d[6] < 1 ? "no shards" : "";
}

}  // namespace

std::vector<KernelRow> rows::factors() {
  const Formula part = "size/shards", twice = "size/shards + size/shards";
  return {
      // row_sums [count, rows] and col_sums [count, columns] of (grad × coef)²; scale [count] =
      // factor × the sum of w², where 1 / factor is the number of elements of a whole matrix. If
      // coef is negative, the gradient is taken as 0.
      {.kind = K::FactorSums,
       .name = "factor_sums",
       .dims = words("n first count rows size divided shards"),
       .scalars = words("factor"),
       .in = {{"grad", "n", Mixed, Write, part},
              {"[coef]", "1", Real},
              {"w", "n", Own, Write, part},
              {"[shard]", "1", Index}},
       .out = {{"row_sums", "count rows", Real},
               {"col_sums", "size/rows", Real},
               {"scale", "count", Real}},
       .flops = "6 (size/shards)",
       .efficiency_as = "adamw",
       .fault = no_matrices,
       .place = place_factor_sums},
      // f = b f + (1 - b) (factor × sum + eps) with b = 1 - t^decay_rate for step t = 1, 2, …,
      // where 1 / factor is the number of elements of the sums. If coef is negative, f stays.
      {.kind = K::FactorMoments,
       .name = "factor_moments",
       .dims = words("n"),
       .scalars = words("factor decay_rate eps"),
       .in = {{"sum", "n", Real}, {"[coef]", "1", Real}},
       .out = {{"f", "n", Real, Update}},
       .flops = "5 n",
       .efficiency_as = "adamw",
       .place = place_factor_moments},
      // square [count] = factor × the sum of u², where u [i, j] = grad × coef / sqrt(row[i] col[j]
      // / mean), and mean is that of row, which is also that of col: of the one that is whole.
      {.kind = K::FactoredSquares,
       .name = "factored_squares",
       .dims = words("n first count rows size divided shards"),
       .scalars = words("factor"),
       .in = {{"grad", "n", Mixed, Write, part},
              {"[coef]", "1", Real},
              {"row", "count rows", Real},
              {"col", "size/rows", Real},
              {"[shard]", "1", Index}},
       .out = {{"square", "count", Real}},
       .flops = "7 (size/shards)",
       .efficiency_as = "adamw",
       .fault = no_matrices,
       .place = place_factored_squares},
      // With the same u, and rate = lr, or min(lr, 1 / sqrt(t)) if `relative` is 1: a = rate ×
      // max(eps, sqrt(scale)) if eps is not 0, else rate; s = a u / max(1, sqrt(square) / clip);
      // with m, m = beta1 m + (1 - beta1) s, and s = m; w -= s + decay a w. If coef is negative,
      // nothing changes.
      {.kind = K::Adafactor,
       .name = "adafactor",
       .dims = words("n first count rows size divided shards relative"),
       .scalars = words("eps clip beta1 decay"),
       .in = {{"grad", "n", Mixed, Write, part},
              {"[coef]", "1", Real},
              {"row", "count rows", Real},
              {"col", "size/rows", Real},
              {"scale", "count", Real},
              {"square", "count", Real},
              {"[shard]", "1", Index}},
       .out = {{"w", "n", Own, Update, twice}, {"[m]", "n", Mixed, Update, twice}},
       .flops = "12 (size/shards)",
       .efficiency_as = "adamw",
       .moves_weights = true,
       .fault = no_matrices,
       .place = place_adafactor},
  };
}

}  // namespace lockstep
