// Convolution and pooling. A window is walked tap by tap: under each of its elements lies a row of
// x, which holds the channels of one pixel, or padding.
#include <limits>
#include <vector>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/window.hpp"

namespace lockstep::reference {
namespace {

class Window {
 public:
  Window(const Operands& k, std::size_t size)
      : kernel(k.dim(size)),
        batch_(k.dim(0)),
        height_(k.dim(1)),
        width_(k.dim(2)),
        stride_(k.dim(size + 1)),
        padding_(window_padding(kernel, stride_)) {}

  const Index kernel;
  Index pixels() const { return batch_ * height_ * width_; }
  Index positions() const { return batch_ * out(height_) * out(width_); }

  /// For every position of the result, the row of x [pixels, channels] that lies under element (dy,
  /// dx) of its window; -1 in the padding.
  std::vector<Index> under(Index dy, Index dx) const {
    std::vector<Index> rows;
    for (Index image = 0; image < batch_; ++image) {
      for (Index y = 0; y < out(height_); ++y) {
        for (Index x = 0; x < out(width_); ++x) {
          const Index row = y * stride_ + dy - padding_;
          const Index column = x * stride_ + dx - padding_;
          const bool inside = row >= 0 && row < height_ && column >= 0 && column < width_;
          rows.push_back(inside ? (image * height_ + row) * width_ + column : -1);
        }
      }
    }
    return rows;
  }

  /// Calls body(tap, under) for every element of the window, row by row.
  template <class Body>
  void for_each_tap(const Body& body) const {
    for (Index tap = 0; tap < kernel * kernel; ++tap) body(tap, under(tap / kernel, tap % kernel));
  }

 private:
  Index out(Index size) const { return (size + stride_ - 1) / stride_; }
  Index batch_, height_, width_, stride_, padding_;
};

/// The listed rows of x; a row of `padding` for -1.
Matrix rows_of(const View& x, const std::vector<Index>& rows, double padding = 0) {
  Matrix out = Matrix::Constant(static_cast<Index>(rows.size()), x.cols(), padding);
  for (Index i = 0; i < out.rows(); ++i) {
    const Index row = rows[to_size(i)];
    if (row >= 0) out.row(i) = x.row(row);
  }
  return out;
}

/// The reverse: adds every row of `from` to the row of x that is listed for it.
void add_to_rows(const Matrix& from, const std::vector<Index>& rows, View x) {
  for (Index i = 0; i < from.rows(); ++i) {
    const Index row = rows[to_size(i)];
    if (row >= 0) x.row(row) += from.row(i);
  }
}

/// The weights of one tap, [out, in].
auto weights_of_tap(View w, Index tap, Index in) { return w.middleCols(tap * in, in); }

void conv2d_forward(Operands& k) {
  const Window window(k, 5);
  const Index in = k.dim(3), out = k.dim(4);
  View y = k.out(0, window.positions());
  y = 0;
  window.for_each_tap([&](Index tap, const std::vector<Index>& under) {
    y += product(rows_of(k.in(0, window.pixels()), under),
                 weights_of_tap(k.in(1, out), tap, in).transpose());
  });
}

void conv2d_backward_input(Operands& k) {
  const Window window(k, 5);
  const Index in = k.dim(3), out = k.dim(4);
  View dx = k.out(0, window.pixels());
  dx = 0;
  if (k.has_in(2)) dx += k.in(2, window.pixels());
  window.for_each_tap([&](Index tap, const std::vector<Index>& under) {
    add_to_rows(product(k.in(0, window.positions()), weights_of_tap(k.in(1, out), tap, in)), under,
                dx);
  });
}

void conv2d_backward_weight(Operands& k) {
  const Window window(k, 5);
  const Index in = k.dim(3), out = k.dim(4);
  window.for_each_tap([&](Index tap, const std::vector<Index>& under) {
    k.set(
        weights_of_tap(k.out(0, out), tap, in),
        product(k.in(0, window.positions()).transpose(), rows_of(k.in(1, window.pixels()), under)));
  });
}

void max_pool_forward(Operands& k) {
  const Window window(k, 4);
  View y = k.out(0, window.positions());
  y = -std::numeric_limits<double>::infinity();
  window.for_each_tap([&](Index, const std::vector<Index>& under) {
    y = y.max(rows_of(k.in(0, window.pixels()), under, -std::numeric_limits<double>::infinity()));
  });
}

/// The gradient goes to the first element of the window, row by row, that no other exceeds.
void max_pool_backward(Operands& k) {
  const Window window(k, 4);
  const View dy = k.in(0, window.positions()), x = k.in(1, window.pixels());
  View dx = k.out(0, window.pixels());
  dx = 0;
  constexpr double kLowest = -std::numeric_limits<double>::infinity();
  Matrix largest = Matrix::Constant(dy.rows(), dy.cols(), kLowest);
  window.for_each_tap([&](Index, const std::vector<Index>& under) {
    largest = largest.max(rows_of(x, under, kLowest));
  });
  Matrix left = dy;  // the gradients that have not found their elements yet
  window.for_each_tap([&](Index, const std::vector<Index>& under) {
    const Matrix seen = rows_of(x, under, kLowest);
    add_to_rows((seen == largest).select(left, 0), under, dx);
    left = (seen == largest).select(0, left);
  });
}

void average_pool_forward(Operands& k) {
  const Index batch = k.dim(0), positions = k.dim(1);
  for (Index b = 0; b < batch; ++b) {
    k.out(0, batch).row(b) =
        k.in(0, batch * positions).middleRows(b * positions, positions).colwise().mean();
  }
}

void average_pool_backward(Operands& k) {
  const Index batch = k.dim(0), positions = k.dim(1);
  for (Index row = 0; row < batch * positions; ++row) {
    k.out(0, batch * positions).row(row) =
        k.in(0, batch).row(row / positions) / static_cast<double>(positions);
  }
}

}  // namespace

void add_vision(Definitions& kernels) {
  kernels[KernelKind::Conv2dForward] = conv2d_forward;
  kernels[KernelKind::Conv2dBackwardInput] = conv2d_backward_input;
  kernels[KernelKind::Conv2dBackwardWeight] = conv2d_backward_weight;
  kernels[KernelKind::MaxPoolForward] = max_pool_forward;
  kernels[KernelKind::MaxPoolBackward] = max_pool_backward;
  kernels[KernelKind::AveragePoolForward] = average_pool_forward;
  kernels[KernelKind::AveragePoolBackward] = average_pool_backward;
}

}  // namespace lockstep::reference
