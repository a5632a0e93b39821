#include "core/lower/update/newton_schulz.hpp"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/lower/draft/one_kernel.hpp"

namespace lockstep {
namespace {

// The coefficients of Jordan et al. 2024, which do not converge to 1 but come near it in few steps.
constexpr double kA = 3.4445, kB = -4.7750, kC = 2.0315;
constexpr double kEps = 1e-7;

/// Writes the kernels of newton_schulz(). The matrix goes to and fro between "matrix" and "other".
class NewtonSchulzBuilder {
 public:
  explicit NewtonSchulzBuilder(const NewtonSchulz& what)
      : what_(what),
        elements_(what.rows * what.cols),
        shorter_(std::min(what.rows, what.cols)),
        wide_(what.rows <= what.cols) {
    function_.name = "newton_schulz." + std::to_string(what.rows) + "x" + std::to_string(what.cols);
    if (what.column_parts > 1) function_.name += "." + std::to_string(what.column_parts);
    const DType sums = sum_type(what.dtype);
    const std::int64_t square = shorter_ * shorter_;
    formal("matrix", what.dtype, elements_, Access::ReadWrite);
    formal("other", what.dtype, elements_, Access::Write);
    formal("product", what.dtype, square, Access::Write);
    formal("polynomial", what.dtype, square, Access::Write);
    formal("norm", sums, 1, Access::Write);
  }

  Function build() {
    int now = kMatrix;
    if (what_.column_parts > 1) now = regroup(now, true);
    emit(KernelKind::NormSquared, {elements_, 1}, {}, {now}, kNorm);
    emit(KernelKind::Normalize, {elements_}, {kEps}, {now, kNorm}, now);
    for (int step = 0; step < what_.steps; ++step) now = iterate(now);
    if (what_.column_parts > 1) now = regroup(now, false);
    emit(KernelKind::Scale, {elements_}, {what_.factor}, {now}, kMatrix);
    return std::move(function_);
  }

 private:
  static constexpr int kMatrix = 0, kOther = 1, kProduct = 2, kPolynomial = 3, kNorm = 4;

  void formal(const char* name, DType dtype, std::int64_t elements, Access access) {
    function_.formals.push_back({name, access, Bytes{elements * size_of(dtype)}});
  }
  Operand operand(int formal) const {
    return {static_cast<std::int16_t>(formal),
            formal == kNorm ? sum_type(what_.dtype) : what_.dtype, 0};
  }
  Kernel& emit(KernelKind kind, std::array<std::int64_t, kMaxDims> dims,
               std::array<double, 4> scalars, const std::vector<int>& in, int out) {
    Kernel kernel = bare_kernel(kind, what_.dtype, dims, scalars);
    for (const int formal : in) kernel.in.push_back(operand(formal));
    kernel.out.push_back(operand(out));
    function_.kernels.push_back(std::move(kernel));
    return function_.kernels.back();
  }
  Kernel& multiply(std::array<std::int64_t, kMaxDims> dims, int a, int b, int c) {
    Kernel& product = emit(KernelKind::Gemm, dims, {}, {a, b}, c);
    product.tf32 = what_.tf32;
    return product;
  }

  /// Brings parts of the columns together, or takes them apart again. Returns where they are then.
  int regroup(int from, bool together) {
    const int to = from == kMatrix ? kOther : kMatrix;
    const std::int64_t parts = what_.column_parts;
    emit(KernelKind::Regroup, {what_.rows, parts, what_.cols / parts, 0, 0, together ? 1 : 0}, {},
         {from}, to);
    return to;
  }

  /// Makes of X, in `from`, a X + (b A + c A A) X with A = X Xt. A matrix of more rows than columns
  /// has A = Xt X on its other side, which is smaller. Returns where the result is.
  int iterate(int from) {
    const int to = from == kMatrix ? kOther : kMatrix;
    const std::int64_t rows = what_.rows, cols = what_.cols, n = shorter_;
    wide_ ? multiply({n, n, cols, 0, 1}, from, from, kProduct)
          : multiply({n, n, rows, 1, 0}, from, from, kProduct);
    emit(KernelKind::Scale, {n * n}, {kB}, {kProduct}, kPolynomial);
    emit(KernelKind::Scale, {n * n}, {kC}, {kProduct}, to);  // there is room, and nothing there yet
    multiply({n, n, n, 0, 0}, to, kProduct, kPolynomial).accumulate = true;
    emit(KernelKind::Scale, {elements_}, {kA}, {from}, to);
    Kernel& last = wide_ ? multiply({rows, cols, rows, 0, 0}, kPolynomial, from, to)
                         : multiply({rows, cols, cols, 0, 0}, from, kPolynomial, to);
    last.accumulate = true;
    return to;
  }

  const NewtonSchulz& what_;
  const std::int64_t elements_, shorter_;
  const bool wide_;
  Function function_;
};

}  // namespace

Function newton_schulz(const NewtonSchulz& what) { return NewtonSchulzBuilder(what).build(); }

}  // namespace lockstep
