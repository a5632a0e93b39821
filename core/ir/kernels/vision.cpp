#include "core/ir/kernels/vision.hpp"

#include <algorithm>

#include "core/ir/kernels/saturating.hpp"

namespace lockstep {
namespace {

using K = KernelKind;
using saturating::product;
using saturating::times;

/// Positions along one side: ceil(size / stride). The stride may come from program text.
std::int64_t strided(std::int64_t size, std::int64_t stride) {
  return size / std::max<std::int64_t>(stride, 1) + (stride > 1 && size % stride != 0 ? 1 : 0);
}

/// Tensors of a convolution or a pooling window; of pooling, channels in = out and no weights.
struct Window {
  std::int64_t x, y, w;
  double macs;
};
Window window_of(const Kernel& kernel) {
  const auto& d = kernel.dims;
  const bool pool = kernel.kind == K::MaxPoolForward || kernel.kind == K::MaxPoolBackward;
  const std::int64_t in = d[3], out = pool ? d[3] : d[4];
  const std::int64_t size = pool ? d[4] : d[5], stride = pool ? d[5] : d[6];
  const std::int64_t positions = product(d[0], strided(d[1], stride), strided(d[2], stride));
  return {
      product(d[0], d[1], d[2], in), times(positions, out), product(out, size, size, in),
      double(positions) * double(out) * double(size) * double(size) * (pool ? 1.0 : double(in))};
}

}  // namespace

std::int64_t vision_input_extent(const Kernel& kernel, std::size_t i) {
  const auto& d = kernel.dims;
  const std::int64_t rows_cols = times(d[0], d[1]);
  switch (kernel.kind) {
    case K::Conv2dForward:
      return i == 0 ? window_of(kernel).x : window_of(kernel).w;
    case K::Conv2dBackwardInput:
      if (i == 1) return window_of(kernel).w;
      return i == 0 ? window_of(kernel).y : window_of(kernel).x;
    case K::Conv2dBackwardWeight:
    case K::MaxPoolBackward:
      return i == 0 ? window_of(kernel).y : window_of(kernel).x;
    case K::MaxPoolForward:
      return window_of(kernel).x;
    case K::BatchNormStatistics:
      return rows_cols;
    case K::BatchNormCombine:
      return times(2, rows_cols);
    case K::BatchNormRunning:
    case K::BatchNormBackwardWeight:
      return times(2, d[0]);
    case K::BatchNormForward:
      if (i == 0 || i == 4) return rows_cols;
      return i == 3 ? times(2, d[1]) : d[1];
    case K::BatchNormBackwardSums:
      return i == 2 ? times(2, d[1]) : rows_cols;
    case K::BatchNormBackwardInput:
      if (i < 2) return rows_cols;
      return i == 2 ? d[1] : times(2, d[1]);
    case K::ReluForward:
    case K::ReluBackward:
      return d[0];
    case K::AveragePoolForward:
      return product(d[0], d[1], d[2]);
    case K::AveragePoolBackward:
      return times(d[0], d[2]);
    default:
      return 0;
  }
}

std::int64_t vision_output_extent(const Kernel& kernel, std::size_t) {
  const auto& d = kernel.dims;
  switch (kernel.kind) {
    case K::Conv2dForward:
    case K::MaxPoolForward:
      return window_of(kernel).y;
    case K::Conv2dBackwardInput:
    case K::MaxPoolBackward:
      return window_of(kernel).x;
    case K::Conv2dBackwardWeight:
      return window_of(kernel).w;
    case K::BatchNormStatistics:
    case K::BatchNormCombine:
    case K::BatchNormBackwardSums:
      return times(2, d[1]);
    case K::BatchNormRunning:
      return times(2, d[0]);
    case K::BatchNormForward:
    case K::BatchNormBackwardInput:
      return times(d[0], d[1]);
    case K::BatchNormBackwardWeight:
    case K::ReluForward:
    case K::ReluBackward:
      return d[0];
    case K::AveragePoolForward:
      return times(d[0], d[2]);
    case K::AveragePoolBackward:
      return product(d[0], d[1], d[2]);
    default:
      return 0;
  }
}

double vision_flops(const Kernel& kernel) {
  const auto d = [&](std::size_t i) { return static_cast<double>(kernel.dims[i]); };
  const double elements = d(0) * d(1);
  switch (kernel.kind) {
    case K::Conv2dForward:
    case K::Conv2dBackwardInput:
    case K::Conv2dBackwardWeight:
      return 2 * window_of(kernel).macs;
    case K::MaxPoolForward:  // a comparison per input of a window
      return window_of(kernel).macs;
    case K::MaxPoolBackward:  // found again, then added
      return window_of(kernel).macs + static_cast<double>(window_of(kernel).y);
    case K::BatchNormStatistics:
      return 4 * elements;
    case K::BatchNormCombine:
      return 5 * elements;
    case K::BatchNormRunning:
      return 7 * d(0);
    case K::BatchNormForward:
      return (kernel.in.size() > 4 && kernel.in[4].present() ? 5 : 4) * elements;
    case K::BatchNormBackwardSums:
      return 5 * elements;
    case K::BatchNormBackwardInput:
      return 6 * elements;
    case K::BatchNormBackwardWeight:
      return 2 * d(0);
    case K::ReluForward:
    case K::ReluBackward:
      return d(0);
    case K::AveragePoolForward:
    case K::AveragePoolBackward:
      return elements * d(2);
    default:
      return 0;
  }
}

}  // namespace lockstep
