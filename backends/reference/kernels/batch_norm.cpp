// Batch norm (Ioffe and Szegedy 2015) of columns. Row 0 of the statistics is the mean, row 1 the
// variance.
#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {
namespace {

Row rstd(const View& stats, double eps) { return (stats.row(1) + eps).rsqrt(); }

/// (x - mean) / sqrt(var + eps)
Matrix standardized(const View& x, const View& stats, double eps) {
  return (x.rowwise() - stats.row(0)).rowwise() * rstd(stats, eps);
}

void batch_norm_statistics(Operands& k) {
  const View x = k.in(0, k.dim(0));
  View stats = k.out(0, 2);
  stats.row(0) = x.colwise().mean();
  stats.row(1) = (x.rowwise() - stats.row(0)).square().colwise().mean();
}

/// The variance of all is the sum of the mean of the variances and the variance of the means.
void batch_norm_combine(Operands& k) {
  const Index parts = k.dim(0), cols = k.dim(1);
  const View each = k.in(0, parts);  // a mean and a variance of every column
  View stats = k.out(0, 2);
  stats.row(0) = each.leftCols(cols).colwise().mean();
  stats.row(1) = each.rightCols(cols).colwise().mean() +
                 (each.leftCols(cols).rowwise() - stats.row(0)).square().colwise().mean();
}

void batch_norm_running(Operands& k) {
  const double momentum = k.scalar(0), correction = k.scalar(1);
  Matrix stats = k.in(0, 2);
  stats.row(1) *= correction;
  k.out(0, 2) += momentum * (stats - k.out(0, 2));
}

void batch_norm_forward(Operands& k) {
  const Index rows = k.dim(0);
  const Matrix xhat = standardized(k.in(0, rows), k.in(3, 2), k.scalar(0));
  k.out(0, rows) = (xhat.rowwise() * k.in(1).row(0)).rowwise() + k.in(2).row(0);
  if (k.has_in(4)) k.out(0, rows) += k.in(4, rows);
}

void batch_norm_backward_sums(Operands& k) {
  const Index rows = k.dim(0);
  const View dy = k.in(0, rows);
  k.out(0, 2).row(0) = dy.colwise().sum();
  k.out(0, 2).row(1) = (dy * standardized(k.in(1, rows), k.in(2, 2), k.scalar(0))).colwise().sum();
}

void batch_norm_backward_input(Operands& k) {
  const Index rows = k.dim(0);
  const double eps = k.scalar(0), count = k.scalar(1);
  const View stats = k.in(3, 2), sums = k.in(4, 2);
  const Matrix xhat = standardized(k.in(1, rows), stats, eps);
  const Matrix inner =
      k.in(0, rows) - ((xhat.rowwise() * sums.row(1)).rowwise() + sums.row(0)) / count;
  k.out(0, rows) = inner.rowwise() * (k.in(2).row(0) * rstd(stats, eps));
}

void batch_norm_backward_weight(Operands& k) {
  k.set(k.out(0), k.in(0, 2).row(1));
  k.set(k.out(1), k.in(0, 2).row(0));
}

}  // namespace

void add_batch_norm(Definitions& kernels) {
  kernels[KernelKind::BatchNormStatistics] = batch_norm_statistics;
  kernels[KernelKind::BatchNormCombine] = batch_norm_combine;
  kernels[KernelKind::BatchNormRunning] = batch_norm_running;
  kernels[KernelKind::BatchNormForward] = batch_norm_forward;
  kernels[KernelKind::BatchNormBackwardSums] = batch_norm_backward_sums;
  kernels[KernelKind::BatchNormBackwardInput] = batch_norm_backward_input;
  kernels[KernelKind::BatchNormBackwardWeight] = batch_norm_backward_weight;
}

}  // namespace lockstep::reference
