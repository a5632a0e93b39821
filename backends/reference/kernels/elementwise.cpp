// Functions of single elements, and copies that lay elements out anew.
#include <cmath>

#include "backends/reference/kernels/definitions.hpp"
#include "backends/reference/kernels/operands.hpp"
#include "core/base/dropout.hpp"

namespace lockstep::reference {
namespace {

/// GELU's tanh form (Hendrycks and Gimpel 2016) is x / 2 (1 + tanh(u)) with u = a (x + b x³). It is
/// written as x sigmoid(2 u), which is the same and does not cancel where tanh(u) is near -1.
constexpr double kA = 0.79788456080286535588;  // sqrt(2 / pi)
constexpr double kB = 0.044715;

}  // namespace

Matrix gelu_gate(const Matrix& x) { return sigmoid(2 * kA * (x + kB * x.cube())); }

Matrix gelu_slope(const Matrix& x) {
  const Matrix gate = gelu_gate(x);
  return gate * (1 + x * (1 - gate) * 2 * kA * (1 + 3 * kB * x.square()));
}

namespace {

void gelu_forward(Operands& k) { k.out(0) = k.in(0) * gelu_gate(k.in(0)); }

void gelu_backward(Operands& k) { k.out(0) = k.in(0) * gelu_slope(k.in(1)); }

void squared_relu_forward(Operands& k) { k.out(0) = k.in(0).max(0).square(); }

void squared_relu_backward(Operands& k) { k.out(0) = k.in(0) * 2 * k.in(1).max(0); }

void softcap_forward(Operands& k) { k.out(0) = k.scalar(0) * (k.in(0) / k.scalar(0)).tanh(); }

void softcap_backward(Operands& k) { k.out(0) = k.in(0) / (k.in(1) / k.scalar(0)).cosh().square(); }

Matrix gelu(const Matrix& x) { return x * gelu_gate(x); }

Matrix silu(const Matrix& x) { return x * sigmoid(x); }

Matrix silu_slope(const Matrix& x) {
  const Matrix s = sigmoid(x);
  return s + x * s * (1 - s);
}

using ElementFunction = Matrix (*)(const Matrix&);

/// y = f(gate) up, where x [rows, 2 cols] are the gates, then the other factors.
template <ElementFunction f>
void gated_forward(Operands& k) {
  const Index rows = k.dim(0), cols = k.dim(1);
  const View x = k.in(0, rows);
  k.out(0, rows) = f(x.leftCols(cols)) * x.rightCols(cols);
}

template <ElementFunction f, ElementFunction slope>
void gated_backward(Operands& k) {
  const Index rows = k.dim(0), cols = k.dim(1);
  const View dy = k.in(0, rows), x = k.in(1, rows);
  const Matrix gate = x.leftCols(cols);
  k.out(0, rows).leftCols(cols) = dy * x.rightCols(cols) * slope(gate);
  k.out(0, rows).rightCols(cols) = dy * f(gate);
}

void relu_forward(Operands& k) {
  k.out(0) = k.in(0).unaryExpr([](double x) { return x <= 0 ? 0 : x; });  // NaN stays NaN
}

void relu_backward(Operands& k) { k.out(0) = (k.in(1) > 0).select(k.in(0), 0); }

void add(Operands& k) {
  const Index rows = k.dim(0);
  k.out(0, rows) = k.in(0, rows);
  if (k.has_in(1)) k.out(0, rows) += k.in(1, rows);
  if (k.has_in(2)) k.out(0, rows).rowwise() += k.in(2).row(0);
}

void dropout(Operands& k) {
  const Index rows = k.dim(0), cols = k.dim(1);
  const double share = k.scalar(0);
  const Index first = k.has_in(4) ? static_cast<Index>(k.in(4)(0)) * cols : 0;
  Matrix y = k.in(0, rows);
  if (k.has_in(3)) y.rowwise() += k.in(3).row(0);
  for (Index r = 0; r < rows; ++r) {
    const auto key = static_cast<std::int32_t>(k.in(1)(r));
    if (key < 0) continue;
    const DropoutRow row(key, k.context().layer, static_cast<int>(k.scalar(1)));
    for (Index c = 0; c < cols; ++c) {
      const bool dropped = row.bits(static_cast<std::uint32_t>(first + c)) < dropped_below(share);
      y(r, c) = dropped ? 0 : y(r, c) / (1 - share);
    }
  }
  if (k.has_in(2)) y += k.in(2, rows);
  k.out(0, rows) = y;
}

void scale(Operands& k) { k.out(0) = k.in(0) * k.scalar(0); }

void fill(Operands& k) { k.out(0) = k.scalar(0); }

void regroup(Operands& k) {
  const Index rows = k.dim(0), parts = k.dim(1), skip = k.dim(6);
  const Index widths[] = {k.dim(2), k.dim(3), k.dim(4)};
  const bool inverse = k.dim(5) != 0;
  for (Index p = 0; p < parts; ++p) {
    Index section = skip, column = 0;  // where a section begins in a row of x, and its part in y
    for (const Index width : widths) {
      auto in_x = inverse ? k.out(0, rows).middleCols(section + p * width, width)
                          : k.in(0, rows).middleCols(section + p * width, width);
      auto in_y = (inverse ? k.in(0, parts * rows) : k.out(0, parts * rows))
                      .block(p * rows, column, rows, width);
      if (inverse) {
        in_x = in_y;
      } else {
        in_y = in_x;
      }
      section += parts * width;
      column += width;
    }
  }
}

void join_columns(Operands& k) {
  const Index rows = k.dim(0), a = k.dim(1), b = k.dim(2);
  k.out(0, rows).leftCols(a) = k.in(0, rows);
  k.out(0, rows).rightCols(b) = k.in(1, rows);
}

void part_columns(Operands& k) {
  const Index rows = k.dim(0), a = k.dim(1), b = k.dim(2);
  k.out(0, rows) = k.in(0, rows).leftCols(a);
  k.out(1, rows) = k.in(0, rows).rightCols(b);
}

}  // namespace

void add_elementwise(Definitions& kernels) {
  kernels[KernelKind::GeluForward] = gelu_forward;
  kernels[KernelKind::GeluBackward] = gelu_backward;
  kernels[KernelKind::SquaredReluForward] = squared_relu_forward;
  kernels[KernelKind::SquaredReluBackward] = squared_relu_backward;
  kernels[KernelKind::SoftcapForward] = softcap_forward;
  kernels[KernelKind::SoftcapBackward] = softcap_backward;
  kernels[KernelKind::SwigluForward] = gated_forward<silu>;
  kernels[KernelKind::SwigluBackward] = gated_backward<silu, silu_slope>;
  kernels[KernelKind::GegluForward] = gated_forward<gelu>;
  kernels[KernelKind::GegluBackward] = gated_backward<gelu, gelu_slope>;
  kernels[KernelKind::Add] = add;
  kernels[KernelKind::Dropout] = dropout;
  kernels[KernelKind::Scale] = scale;
  kernels[KernelKind::Regroup] = regroup;
  kernels[KernelKind::JoinColumns] = join_columns;
  kernels[KernelKind::PartColumns] = part_columns;
  kernels[KernelKind::Fill] = fill;
  kernels[KernelKind::ReluForward] = relu_forward;
  kernels[KernelKind::ReluBackward] = relu_backward;
}

}  // namespace lockstep::reference
