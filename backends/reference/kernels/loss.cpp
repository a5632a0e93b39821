// Cross-entropy: -log softmax(logits)[target] of every row, whole or over parts of the vocabulary.
#include <cmath>
#include <limits>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/documents.hpp"

namespace lockstep::reference {
namespace {

constexpr double kNone = -std::numeric_limits<double>::infinity();

Index real_columns(Operands& k, std::size_t columns) {
  return k.has_in(columns) ? static_cast<Index>(k.in(columns)(0)) : k.dim(1);
}

bool is_ignored(Operands& k, Index r) { return k.in(1)(r) == kIgnoredTarget; }

/// Writes the gradient of the loss by the logits of row r; `lse` is log sum exp of all its logits.
void gradient_of_row(Operands& k, Index r, double lse, Index real, double loss_scale) {
  const Index rows = k.dim(0), cols = k.dim(1), target = static_cast<Index>(k.in(1)(r));
  const bool ignored = is_ignored(k, r);
  auto d = k.out(0, rows).row(r);
  d.head(real) = (k.in(0, rows).row(r).head(real) - lse).exp();
  d.tail(cols - real) = 0;
  if (target >= 0 && target < cols) d(target) -= 1;
  d *= ignored ? 0 : k.scalar(0) * loss_scale;
}

void cross_entropy(Operands& k) {
  const Index rows = k.dim(0);
  const View x = k.in(0, rows);
  double loss = 0;
  for (Index r = 0; r < rows; ++r) {
    const double largest = x.row(r).maxCoeff();
    const double lse = largest + std::log((x.row(r) - largest).exp().sum());
    if (!is_ignored(k, r)) loss += lse - x(r, static_cast<Index>(k.in(1)(r)));
    gradient_of_row(k, r, lse, k.dim(1), k.factor(2));
  }
  k.set(k.out(1), k.scalar(0) * loss);
}

void cross_entropy_stats(Operands& k) {
  const Index rows = k.dim(0), cols = k.dim(1), real = real_columns(k, 2);
  View stats = k.out(0, rows);
  for (Index r = 0; r < rows; ++r) {
    const auto x = k.in(0, rows).row(r);
    const auto target = static_cast<Index>(k.in(1)(r));
    stats(r, 0) = real > 0 ? x.head(real).maxCoeff() : kNone;
    stats(r, 1) = real > 0 ? (x.head(real) - stats(r, 0)).exp().sum() : 0;
    stats(r, 2) = target >= 0 && target < cols ? x(target) : kNone;
  }
}

void cross_entropy_parallel(Operands& k) {
  const Index rows = k.dim(0), parts = k.dim(2);
  double loss = 0;
  for (Index r = 0; r < rows; ++r) {
    Matrix of_parts(parts, 3);
    for (Index p = 0; p < parts; ++p) of_parts.row(p) = k.in(2, parts * rows).row(p * rows + r);
    const double largest = of_parts.col(0).maxCoeff();
    const double sum = (of_parts.col(1) * (of_parts.col(0) - largest).exp()).sum();
    const double lse = largest + std::log(sum);
    if (!is_ignored(k, r)) loss += lse - of_parts.col(2).maxCoeff();
    gradient_of_row(k, r, lse, real_columns(k, 3), k.factor(4));
  }
  k.set(k.out(1), k.scalar(0) * loss);
}

}  // namespace

void add_loss(Definitions& kernels) {
  kernels[KernelKind::CrossEntropy] = cross_entropy;
  kernels[KernelKind::CrossEntropyStats] = cross_entropy_stats;
  kernels[KernelKind::CrossEntropyParallel] = cross_entropy_parallel;
}

}  // namespace lockstep::reference
