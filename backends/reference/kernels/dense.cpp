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
      if (!k.has_out(0)) continue;
      k.out(0, y.rows()).block(i * across, j * along, rows, cols) =
          (block / scales(i, j)).unaryExpr([mantissa](double v) {
            return static_cast<double>(float8_code(v, mantissa));
          });
    }
  }
}

namespace {

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

}  // namespace

void scaled_gemm(Operands& k) {
  const Index m = k.dim(0), n = k.dim(1), along = k.dim(5);
  const auto factor = [&](std::size_t i, Index rows, Index across) {
    return values_of(k.in(i, rows), k.in(4 + i, (rows + across - 1) / across), across, along,
                     k.scalar(i));
  };
  Matrix c = product(factor(0, m, k.dim(3)), factor(1, n, k.dim(4)).transpose());
  if (k.has_in(2)) c.rowwise() += k.in(2).row(0);
  if (k.has_in(3)) c += k.in(3, m);
  k.set(k.out(0, m), c);
}

void column_sum(Operands& k) { k.set(k.out(0), k.in(0, k.dim(0)).colwise().sum()); }

}  // namespace lockstep::reference
