// Operands: the operands of one kernel as matrices of float64, and what the definitions share. Only
// files of this folder include it, because it includes Eigen.
#pragma once

#define EIGEN_DONT_VECTORIZE  // so that exp and the like are the C library's, and NaN stays NaN
#include <Eigen/Core>
#include <span>
#include <vector>

#include "core/ir/kernels/kernel.hpp"
#include "core/run/device.hpp"

namespace lockstep::reference {

using Eigen::Index;
using Matrix = Eigen::Array<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using Column = Eigen::Array<double, Eigen::Dynamic, 1>;
using Row = Eigen::Array<double, 1, Eigen::Dynamic>;
using View = Eigen::Map<Matrix>;

/// Copies of the operands, so that what a kernel reads does not change while it writes, wherever
/// operands lie in memory. Operands, dims and scalars are indexed by their positions in the
/// kernel's row (core/ir/kernels/kernel.hpp).
class Operands {
 public:
  Operands(const Kernel& kernel, std::span<std::byte* const> buffers, const StepContext& context);
  /// Rounds the outputs to their types and writes them to memory.
  void store() const;

  Index dim(std::size_t i) const { return kernel_.dims[i]; }
  double scalar(std::size_t i) const { return kernel_.scalars[i]; }
  const Kernel& kernel() const { return kernel_; }
  const StepContext& context() const { return context_; }
  /// The factor of an optional input of one element: 1 if it is absent.
  double factor(std::size_t i) { return has_in(i) ? in(i)(0) : 1.0; }

  bool accumulates() const { return kernel_.accumulate; }
  bool has_in(std::size_t i) const { return i < in_.size() && in_[i].address != nullptr; }
  bool has_out(std::size_t i) const { return i < out_.size() && out_[i].address != nullptr; }
  /// All elements of a present operand as `rows` rows of equal length. Integers are converted to
  /// float64, too. An output has the values that are in memory until it is written.
  View in(std::size_t i, Index rows = 1) { return view(in_[i], rows); }
  View out(std::size_t i, Index rows = 1) { return view(out_[i], rows); }
  /// The "(+)=" of the kernels' rows: adds to an output if the kernel accumulates, else overwrites
  /// it.
  template <class Output, class Value>
  void set(Output&& output, const Value& value) const {
    if (kernel_.accumulate) {
      output += value;
    } else {
      output = value;
    }
  }

 private:
  struct Copy {
    std::byte* address = nullptr;  // null for an absent operand
    DType dtype = DType::F32;
    std::vector<double> values;
  };
  static View view(Copy& copy, Index rows);

  const Kernel& kernel_;
  const StepContext& context_;
  std::vector<Copy> in_, out_;
};

/// The matrix product a b.
Matrix product(const Eigen::Ref<const Matrix>& a, const Eigen::Ref<const Matrix>& b);

/// By what GELU multiplies x, and its derivative at x.
Matrix gelu_gate(const Matrix& x);
Matrix gelu_slope(const Matrix& x);

/// 1 / (1 + exp(-x))
template <class Values>
auto sigmoid(const Values& x) {
  return (1 + (-x).exp()).inverse();
}

}  // namespace lockstep::reference
