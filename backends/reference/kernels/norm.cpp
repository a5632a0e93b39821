// Layer norm (Ba et al. 2016) and RMS norm (Zhang and Sennrich 2019) of rows, and of heads.
#include <cmath>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"

namespace lockstep::reference {
namespace {

/// (x - mean) × rstd with the saved statistics. For RMS norm the mean counts as zero.
Matrix normalized(const View& x, const View& stats, bool centered) {
  const auto rstd = stats.col(stats.cols() - 1);
  if (!centered) return x.colwise() * rstd;
  return (x.colwise() - stats.col(0)).colwise() * rstd;
}

/// dx = rstd (g - mean(g) - xhat mean(g xhat)) with g = dy w; for RMS norm without mean(g).
void backward_input(Operands& k, bool centered) {
  const Index rows = k.dim(0);
  const View stats = k.in(3, rows);
  const Matrix xhat = normalized(k.in(1, rows), stats, centered);
  const Matrix g = k.in(0, rows).rowwise() * k.in(2).row(0);
  const Column along = (g * xhat).rowwise().mean();
  Matrix dx = g - xhat.colwise() * along;
  if (centered) dx.colwise() -= g.rowwise().mean().eval();
  dx.colwise() *= stats.col(stats.cols() - 1);
  if (k.has_in(4)) dx += k.in(4, rows);
  k.out(0, rows) = dx;
}

void backward_weight(Operands& k, bool centered) {
  const Index rows = k.dim(0);
  const View dy = k.in(0, rows);
  const Matrix xhat = normalized(k.in(1, rows), k.in(2, rows), centered);
  k.set(k.out(0), (dy * xhat).colwise().sum());
  if (centered) k.set(k.out(1), dy.colwise().sum());
}

/// The heads of queries and keys of all rows: `each` gets a row's columns, the place of its
/// statistics, and whether the head is one of queries.
template <class Each>
void for_heads(Operands& k, const Each& each) {
  const Index heads = k.dim(1), normed = heads + k.dim(2), dim = k.dim(3);
  for (Index row = 0; row < k.dim(0); ++row) {
    for (Index h = 0; h < normed; ++h) {
      const Index first = (row * (heads + 2 * k.dim(2)) + h) * dim;
      each(first, row * normed + h, h < heads);
    }
  }
}

void head_norm_forward(Operands& k) {
  const Index dim = k.dim(3);
  const auto x = k.in(0).row(0);
  k.out(0) = k.in(0);
  for_heads(k, [&](Index first, Index stat, bool queries) {
    const Row head = x.segment(first, dim);
    const double scale = 1 / std::sqrt(head.square().mean() + k.scalar(0));
    k.out(0).row(0).segment(first, dim) = head * scale * k.in(queries ? 1 : 2).row(0);
    k.out(1)(stat) = scale;
  });
}

void head_norm_backward_input(Operands& k) {
  const Index dim = k.dim(3);
  k.out(0) = k.in(0);
  for_heads(k, [&](Index first, Index stat, bool queries) {
    const double scale = k.in(4)(stat);
    const Row xhat = k.in(1).row(0).segment(first, dim) * scale;
    const Row g = k.in(0).row(0).segment(first, dim) * k.in(queries ? 2 : 3).row(0);
    k.out(0).row(0).segment(first, dim) = scale * (g - xhat * (g * xhat).mean());
  });
}

void head_norm_backward_weight(Operands& k) {
  const Index dim = k.dim(3);
  Row sums[2] = {Row::Zero(dim), Row::Zero(dim)};
  for_heads(k, [&](Index first, Index stat, bool queries) {
    sums[queries ? 0 : 1] +=
        k.in(0).row(0).segment(first, dim) * (k.in(1).row(0).segment(first, dim) * k.in(2)(stat));
  });
  for (std::size_t i = 0; i < 2; ++i) k.set(k.out(i), sums[i]);
}

void layer_norm_forward(Operands& k) {
  const Index rows = k.dim(0);
  const View x = k.in(0, rows);
  View stats = k.out(1, rows);
  stats.col(0) = x.rowwise().mean();
  const Matrix centered = x.colwise() - stats.col(0);
  stats.col(1) = (centered.square().rowwise().mean() + k.scalar(0)).rsqrt();
  k.out(0, rows) =
      (normalized(x, stats, true).rowwise() * k.in(1).row(0)).rowwise() + k.in(2).row(0);
}

void rms_norm_forward(Operands& k) {
  const Index rows = k.dim(0);
  const View x = k.in(0, rows);
  View stats = k.out(1, rows);
  stats.col(0) = (x.square().rowwise().mean() + k.scalar(0)).rsqrt();
  k.out(0, rows) = normalized(x, stats, false).rowwise() * k.in(1).row(0);
}

void layer_norm_backward_input(Operands& k) { backward_input(k, true); }
void layer_norm_backward_weight(Operands& k) { backward_weight(k, true); }
void rms_norm_backward_input(Operands& k) { backward_input(k, false); }
void rms_norm_backward_weight(Operands& k) { backward_weight(k, false); }

}  // namespace

void add_norm(Definitions& kernels) {
  kernels[KernelKind::LayerNormForward] = layer_norm_forward;
  kernels[KernelKind::LayerNormBackwardInput] = layer_norm_backward_input;
  kernels[KernelKind::LayerNormBackwardWeight] = layer_norm_backward_weight;
  kernels[KernelKind::RmsNormForward] = rms_norm_forward;
  kernels[KernelKind::RmsNormBackwardInput] = rms_norm_backward_input;
  kernels[KernelKind::RmsNormBackwardWeight] = rms_norm_backward_weight;
  kernels[KernelKind::HeadNormForward] = head_norm_forward;
  kernels[KernelKind::HeadNormBackwardInput] = head_norm_backward_input;
  kernels[KernelKind::HeadNormBackwardWeight] = head_norm_backward_weight;
}

}  // namespace lockstep::reference
