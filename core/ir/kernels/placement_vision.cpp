// Rules of placement for convolutions, batch norm and pooling.
#include "core/ir/kernels/placement.hpp"

namespace lockstep {
namespace {

using namespace placing;

/// Whether statistics fit x: they are of all rows, or each rank has those of its own rows.
bool fits_statistics(Along stats, Along x) {
  return is_rows(x) ? stats == Along::Own || stats == Along::Same : stats == x;
}

bool batch_norm_forward(const Kernel& k, AxisOperands& o) {
  const Along x = o.in[0];
  return has_values(x) && fits_columns(o.in[1], x) && fits_columns(o.in[2], x) &&
         fits_statistics(o.in[3], x) && fits(o.in[4], x) && results(k, o, {{x}});
}

bool batch_norm_backward_sums(const Kernel& k, AxisOperands& o) {
  const Along dy = o.in[0];
  return has_values(dy) && o.in[1] == dy && fits_statistics(o.in[2], dy) &&
         results(k, o, {{sum_over_rows(dy)}});
}

/// The sums must be over the same rows as the statistics: a rank's own, or all.
bool batch_norm_backward_input(const Kernel& k, AxisOperands& o) {
  const auto& [dy, x, w, stats, sums, rest1, rest2, rest3] = o.in;
  if (!has_values(dy) || x != dy || !fits_columns(w, dy) || !fits_statistics(stats, dy)) {
    return false;
  }
  const Along wanted = stats == Along::Own ? Along::Partial : stats;
  return sums == wanted && results(k, o, {{dy}});
}

}  // namespace

bool place_vision(const Kernel& kernel, AxisOperands& o) {
  const Along first = o.in[0], second = o.in[1];
  switch (kernel.kind) {
    case KernelKind::Conv2dForward:
      return results(kernel, o, {{product(first, second)}});
    case KernelKind::Conv2dBackwardInput: {
      const Along dx = product(first, second);
      return fits(o.in[2], dx) && results(kernel, o, {{dx}});
    }
    case KernelKind::Conv2dBackwardWeight:
      return results(kernel, o, {{weight_gradient(first, second)}});
    case KernelKind::BatchNormStatistics:
      return has_values(first) && results(kernel, o, {{is_rows(first) ? Along::Own : first}});
    case KernelKind::BatchNormCombine:
      return (first == Along::Same || first == Along::Split) && results(kernel, o, {{first}});
    case KernelKind::BatchNormRunning:
      return results(kernel, o, {{first}});
    case KernelKind::BatchNormForward:
      return batch_norm_forward(kernel, o);
    case KernelKind::BatchNormBackwardSums:
      return batch_norm_backward_sums(kernel, o);
    case KernelKind::BatchNormBackwardInput:
      return batch_norm_backward_input(kernel, o);
    case KernelKind::BatchNormBackwardWeight:
      return results(kernel, o, {{first, first}});
    case KernelKind::MaxPoolForward:
    case KernelKind::MaxPoolBackward:
    case KernelKind::AveragePoolForward:
    case KernelKind::AveragePoolBackward:
      return has_values(first) && fits(second, first) && results(kernel, o, {{first}});
    default:
      return false;
  }
}

}  // namespace lockstep
