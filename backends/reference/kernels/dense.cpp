// Products of matrices.
#include <algorithm>
#include <cmath>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/float8.hpp"

namespace lockstep::reference {

Matrix product(const Eigen::Ref<const Matrix>& a, const Eigen::Ref<const Matrix>& b) {
  return (a.matrix() * b.matrix()).array();
}

namespace {

void gemm(Operands& k) {
  const Index m = k.dim(0), n = k.dim(1), inner = k.dim(2);
  const bool ta = k.dim(3) != 0, tb = k.dim(4) != 0;
  const View a = k.in(0, ta ? inner : m), b = k.in(1, tb ? n : inner);
  Matrix c = ta   ? tb ? product(a.transpose(), b.transpose()) : product(a.transpose(), b)
               : tb ? product(a, b.transpose())
                  : product(a, b);
  if (k.has_in(2)) c.rowwise() += k.in(2).row(0);
  if (k.has_in(3)) c += k.in(3, m);
  k.set(k.out(0, m), c);
}

void quantize(Operands& k) {
  const bool transposed = k.dim(2) != 0;
  const View x = k.in(0, k.dim(0));
  const Matrix y = transposed ? Matrix(x.transpose()) : Matrix(x);
  const Index across = k.dim(3), along = k.dim(4);
  const int mantissa = static_cast<int>(k.scalar(0));
  View scales = k.out(1, (y.rows() + across - 1) / across);
  for (Index i = 0; i < scales.rows(); ++i) {
    for (Index j = 0; j < scales.cols(); ++j) {
      const Index rows = std::min(across, y.rows() - i * across);
      const Index cols = std::min(along, y.cols() - j * along);
      const auto block = y.block(i * across, j * along, rows, cols);
      const double largest =
          block.unaryExpr([](double v) { return std::isfinite(v) ? std::abs(v) : 0; }).maxCoeff();
      scales(i, j) =
          k.has_in(1) ? k.in(1).maxCoeff() : std::ldexp(1.0, float8_exponent(largest, mantissa));
      if (k.has_out(2)) k.out(2)(0, 0) = i + j == 0 ? largest : std::max(k.out(2)(0, 0), largest);
      if (!k.has_out(0)) continue;
      k.out(0, y.rows()).block(i * across, j * along, rows, cols) =
          (block / scales(i, j)).unaryExpr([mantissa](double v) {
            return static_cast<double>(float8_code(v, mantissa));
          });
    }
  }
}

/// The values of a factor with `rows` rows, whose scales are of blocks of `across` × `along`.
Matrix values_of(const View& codes, const View& scales, Index across, Index along,
                 double mantissa) {
  Matrix values(codes.rows(), codes.cols());
  for (Index r = 0; r < codes.rows(); ++r) {
    for (Index c = 0; c < codes.cols(); ++c) {
      const auto code = static_cast<std::uint8_t>(codes(r, c));
      values(r, c) = float8_value(code, static_cast<int>(mantissa)) * scales(r / across, c / along);
    }
  }
  return values;
}

void scaled_gemm(Operands& k) {
  const Index m = k.dim(0), n = k.dim(1), inner = k.dim(2), along = k.dim(5);
  const bool by_rows = k.dim(6) != 0, beside = k.scalar(3) != 0;
  const Index groups = std::max<Index>(k.dim(7), 1);
  const Index chunks = k.dim(7) > 0 ? static_cast<Index>(k.scalar(2)) : 1;
  const auto factor = [&](std::size_t i, Index rows) {
    const Index across = k.dim(3 + i);
    return values_of(k.in(i, rows), k.in(4 + i, (rows + across - 1) / across), across, along,
                     k.scalar(i));
  };
  const Matrix a = factor(0, m), b = factor(1, by_rows || beside ? n : groups * n);
  const Index rows = (by_rows ? inner : m) / (groups * chunks);
  for (Index g = 0; g < groups; ++g) {
    if (by_rows) {
      Matrix c = Matrix::Zero(m, n);
      for (Index chunk = 0; chunk < chunks; ++chunk) {
        const Index first = (chunk * groups + g) * rows;
        c += product(a.middleCols(first, rows), b.middleCols(first, rows).transpose());
      }
      if (k.has_in(2)) c.rowwise() += k.in(2).row(0);
      if (k.has_in(3)) c += k.in(3, m);
      k.set(k.out(0, groups * m).middleRows(g * m, m), c);
      continue;
    }
    for (Index chunk = 0; chunk < chunks; ++chunk) {
      const Index first = (chunk * groups + g) * rows;
      const Matrix weights =
          beside ? Matrix(b.middleCols(g * inner, inner)) : Matrix(b.middleRows(g * n, n));
      Matrix c = product(a.middleRows(first, rows), weights.transpose());
      if (k.has_in(2)) c.rowwise() += k.in(2, groups).row(g);
      if (k.has_in(3)) c += k.in(3, m).middleRows(first, rows);
      k.set(k.out(0, m).middleRows(first, rows), c);
    }
  }
}

void largest(Operands& k) {
  View y = k.out(0);
  for (Index i = 0; i < 3; ++i) {
    const double own = k.in(static_cast<std::size_t>(i))(0, 0);
    y(0, i) = k.accumulates() ? std::max(y(0, i), own) : own;
  }
}

void delayed_scale(Operands& k) {
  if (k.has_in(1) && k.in(1)(0, 0) < 0) return;  // a gradient is not finite
  const Index n = k.dim(0), length = k.dim(1);
  View history = k.out(1, n), scale = k.out(0);
  for (Index i = 0; i < n; ++i) {
    for (Index s = length - 1; s > 0; --s) history(i, s) = history(i, s - 1);
    history(i, 0) = k.in(0)(0, i);
    const double most = k.scalar(1) != 0 ? history(i, 0) : history.row(i).maxCoeff();
    if (!(most > 0) || !std::isfinite(most)) continue;
    const int mantissa = static_cast<int>(k.scalar(i % 3 == 2 ? 3 : 2));
    scale(0, i) = std::ldexp(1.0, delayed_exponent(most, static_cast<int>(k.scalar(0)), mantissa));
  }
}

void column_sum(Operands& k) { k.set(k.out(0), k.in(0, k.dim(0)).colwise().sum()); }

}  // namespace

void add_dense(Definitions& kernels) {
  kernels[KernelKind::Gemm] = gemm;
  kernels[KernelKind::Quantize] = quantize;
  kernels[KernelKind::ScaledGemm] = scaled_gemm;
  kernels[KernelKind::ColumnSum] = column_sum;
  kernels[KernelKind::DelayedScale] = delayed_scale;
  kernels[KernelKind::Largest] = largest;
}

}  // namespace lockstep::reference
