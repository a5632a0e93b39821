// Adafactor, by its definitions: the rank's elements of a parameter are laid into whole matrices,
// in which other ranks' elements are zeros.
#include <algorithm>
#include <cmath>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {
namespace {

bool is_skipped(Operands& k) { return k.has_in(1) && k.in(1)(0) < 0; }

/// Where a rank's elements of a parameter lie.
struct Part {
  Index n, first, count, rows, cols;
  Part(Operands& k, std::size_t shard)
      : n(k.dim(0)),
        first(k.dim(1) - (k.has_in(shard) ? static_cast<Index>(k.in(shard)(0)) * n : 0)),
        count(k.dim(2)),
        rows(k.dim(3)),
        cols(k.dim(4) / count / rows) {}
  /// Calls visit(matrix, row, column, the rank's element).
  template <class Visit>
  void each(const Visit& visit) const {
    for (Index e = 0; e < count * rows * cols; ++e) {
      const Index i = e + first;
      if (i >= 0 && i < n) visit(e / (rows * cols), e / cols % rows, e % cols, i);
    }
  }
};

/// The gradient over the roots of the second moments, element by element of the rank's.
Row scaled(Operands& k, const Part& part) {
  const double coef = k.has_in(1) ? k.in(1)(0) : 1.0;
  const Matrix row = k.in(2, part.count), col = k.in(3, part.count);
  const Matrix& whole = k.dim(5) == 2 ? row : col;
  Row u = Row::Zero(part.n);
  part.each([&](Index m, Index r, Index c, Index i) {
    u(i) = k.in(0)(i)*coef / std::sqrt(row(m, r) * col(m, c) / whole.row(m).mean());
  });
  return u;
}

void factor_sums(Operands& k) {
  const Part part(k, 3);
  const double coef = is_skipped(k) ? 0 : k.has_in(1) ? k.in(1)(0) : 1.0;
  Matrix rows = Matrix::Zero(part.count, part.rows), cols = Matrix::Zero(part.count, part.cols);
  Row scale = Row::Zero(part.count);
  part.each([&](Index m, Index r, Index c, Index i) {
    const double g = coef == 0 ? 0 : k.in(0)(i)*coef, w = k.in(2)(i);
    rows(m, r) += g * g;
    cols(m, c) += g * g;
    scale(m) += w * w;
  });
  k.out(0, part.count) = rows;
  k.out(1, part.count) = cols;
  k.out(2) = k.scalar(0) * scale;
}

void factor_moments(Operands& k) {
  if (is_skipped(k)) return;
  const double fresh = std::pow(k.context().step + 1.0, k.scalar(1));
  k.out(0) = (1 - fresh) * k.out(0) + fresh * (k.scalar(0) * k.in(0) + k.scalar(2));
}

void factored_squares(Operands& k) {
  const Part part(k, 4);
  Row squares = Row::Zero(part.count);
  if (!is_skipped(k)) {
    const Row u = scaled(k, part);
    part.each([&](Index m, Index, Index, Index i) { squares(m) += u(i) * u(i); });
  }
  k.out(0) = k.scalar(0) * squares;
}

void adafactor(Operands& k) {
  if (is_skipped(k)) return;
  const Part part(k, 6);
  const double eps = k.scalar(0), clip = k.scalar(1), beta1 = k.scalar(2), decay = k.scalar(3);
  const double lr = k.context().lr, most = 1 / std::sqrt(k.context().step + 1.0);
  const double rate = k.dim(7) != 0 ? std::min(lr, most) : lr;
  const Row u = scaled(k, part);
  part.each([&](Index m, Index, Index, Index i) {
    const double a = eps > 0 ? rate * std::max(eps, std::sqrt(k.in(4)(m))) : rate;
    double s = a * u(i) / std::max(1.0, std::sqrt(k.in(5)(m)) / clip);
    if (k.has_out(1)) s = k.out(1)(i) = beta1 * k.out(1)(i) + (1 - beta1) * s;
    k.out(0)(i) -= s + decay * a * k.out(0)(i);
  });
}

}  // namespace

void add_factors(Definitions& kernels) {
  kernels[KernelKind::FactorSums] = factor_sums;
  kernels[KernelKind::FactorMoments] = factor_moments;
  kernels[KernelKind::FactoredSquares] = factored_squares;
  kernels[KernelKind::Adafactor] = adafactor;
}

}  // namespace lockstep::reference
