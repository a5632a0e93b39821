// GraphComputer: computes a cudnn::Graph on the CPU, operation by operation, in float64. It shows
// what the graph means, not what an engine computes.
#pragma once

#include <cmath>
#include <functional>
#include <map>
#include <vector>

#include "backends/cuda/cudnn/graph.hpp"

namespace lockstep::test {

/// A tensor's elements, row-major.
struct Elements {
  cuda::cudnn::Extents dims{};
  std::vector<double> values;
  std::size_t at(const cuda::cudnn::Extents& i) const {
    const auto strides = cuda::cudnn::dense(dims);
    std::int64_t offset = 0;
    for (std::size_t d = 0; d < 4; ++d) {
      // An extent of one stands for all indices, and a head for its group.
      const std::int64_t own = dims[d] == 1 ? 0 : i[d];
      offset += own * strides[d];
    }
    return static_cast<std::size_t>(offset);
  }
  double operator[](const cuda::cudnn::Extents& i) const { return values[at(i)]; }
  double& operator[](const cuda::cudnn::Extents& i) { return values[at(i)]; }
};

inline Elements elements(const cuda::cudnn::Extents& dims) {
  return {dims, std::vector<double>(static_cast<std::size_t>(dims[0] * dims[1] * dims[2] * dims[3]),
                                    0.0)};
}

inline void for_each(const cuda::cudnn::Extents& dims,
                     const std::function<void(const cuda::cudnn::Extents&)>& f) {
  cuda::cudnn::Extents i{};
  for (i[0] = 0; i[0] < dims[0]; ++i[0]) {
    for (i[1] = 0; i[1] < dims[1]; ++i[1]) {
      for (i[2] = 0; i[2] < dims[2]; ++i[2]) {
        for (i[3] = 0; i[3] < dims[3]; ++i[3]) f(i);
      }
    }
  }
}

/// Operands of the kernel, each an array of elements in memory order; outputs are changed.
struct Operands {
  std::vector<std::vector<double>> in, out;
};

class GraphComputer {
 public:
  GraphComputer(const cuda::cudnn::Graph& graph, Operands& operands)
      : graph_(graph), operands_(operands), known_(graph.tensors.size()) {
    for (const cuda::cudnn::Operation& operation : graph.operations) run(operation);
  }

 private:
  using Tensor = cuda::cudnn::Tensor;
  using Operation = cuda::cudnn::Operation;
  using Extents = cuda::cudnn::Extents;

  const Tensor& tensor(int id) const { return graph_.tensors[id]; }

  /// Where element i lies in its operand.
  static std::size_t place(const Tensor& t, const Extents& i) {
    std::int64_t at = t.offset / size_of(t.type);
    for (std::size_t d = 0; d < 4; ++d) at += i[d] * t.strides[d];
    return static_cast<std::size_t>(at);
  }

  Elements read(int id) {
    const Tensor& t = tensor(id);
    Elements e = elements(t.dims);
    if (t.place == Tensor::Place::Value) {
      e.values[0] = t.value;
    } else if (t.place == Tensor::Place::Input || t.place == Tensor::Place::Output) {
      auto& from = t.place == Tensor::Place::Input ? operands_.in : operands_.out;
      for_each(t.dims, [&](const Extents& i) {
        e[i] = from.at(static_cast<std::size_t>(t.operand)).at(place(t, i));
      });
    } else {
      e = known_[id];
    }
    return e;
  }

  void write(int id, const Elements& e) {
    const Tensor& t = tensor(id);
    if (t.place != Tensor::Place::Output) {
      known_[id] = e;
      return;
    }
    for_each(t.dims, [&](const Extents& i) {
      operands_.out.at(static_cast<std::size_t>(t.operand)).at(place(t, i)) = e[i];
    });
  }

  void run(const Operation& operation) {
    std::vector<Elements> in;
    for (const int id : operation.in) {
      if (id >= 0) in.push_back(read(id));
    }
    Elements out = elements(tensor(operation.out).dims);
    switch (operation.kind) {
      case Operation::Kind::MatMul:
        multiply(in[0], in[1], out);
        break;
      case Operation::Kind::Convolution:
      case Operation::Kind::ConvolutionInput:
      case Operation::Kind::ConvolutionWeight:
        convolve(operation, in[0], in[1], out);
        break;
      case Operation::Kind::Reshape:
        reshape(tensor(operation.in[0]), in[0], tensor(operation.out), out);
        break;
      case Operation::Kind::Max:
      case Operation::Kind::Sum:
        reduce(operation.kind == Operation::Kind::Max, in[0], out);
        break;
      case Operation::Kind::Index:
        for_each(out.dims,
                 [&](const Extents& i) { out[i] = static_cast<double>(i[operation.axis]); });
        break;
      default:
        for_each(out.dims, [&](const Extents& i) { out[i] = pointwise(operation.kind, in, i); });
    }
    write(operation.out, out);
  }

  static void multiply(const Elements& a, const Elements& b, Elements& c) {
    const std::int64_t group = c.dims[1] / b.dims[1];
    for_each(c.dims, [&](const Extents& i) {
      for (std::int64_t k = 0; k < a.dims[3]; ++k) {
        c[i] += a[{i[0], i[1], i[2], k}] * b[{i[0], i[1] / group, k, i[3]}];
      }
    });
  }

  static void convolve(const Operation& operation, const Elements& first, const Elements& second,
                       Elements& result) {
    using Kind = Operation::Kind;
    const bool forward = operation.kind == Kind::Convolution;
    const bool input = operation.kind == Kind::ConvolutionInput;
    const Extents& y = forward ? result.dims : first.dims;
    const Extents& x = forward ? first.dims : input ? result.dims : second.dims;
    const Extents& w = forward || input ? second.dims : result.dims;
    for_each(y, [&](const Extents& at) {
      for_each({w[1], w[2], w[3], 1}, [&](const Extents& tap) {
        const Extents from{at[0], tap[0], at[2] * operation.stride - operation.pad + tap[1],
                           at[3] * operation.stride - operation.pad + tap[2]};
        if (from[2] < 0 || from[3] < 0 || from[2] >= x[2] || from[3] >= x[3]) return;
        const Extents weight{at[1], tap[0], tap[1], tap[2]};
        if (forward) result[at] += first[from] * second[weight];
        if (input) result[from] += first[at] * second[weight];
        if (!forward && !input) result[weight] += first[at] * second[from];
      });
    });
  }

  static void reshape(const Tensor& from, const Elements& x, const Tensor& to, Elements& y) {
    std::map<std::size_t, double> memory;
    for_each(x.dims, [&](const Extents& i) { memory[place(from, i)] = x[i]; });
    Tensor view = to;
    view.offset = from.offset / size_of(from.type) * size_of(to.type);
    for_each(y.dims, [&](const Extents& i) { y[i] = memory.at(place(view, i)); });
  }

  static void reduce(bool largest, const Elements& x, Elements& y) {
    if (largest) y.values.assign(y.values.size(), -HUGE_VAL);
    for_each(x.dims, [&](const Extents& i) {
      Extents to{};
      for (std::size_t d = 0; d < 4; ++d) to[d] = i[d] / (x.dims[d] / y.dims[d]);
      y[to] = largest ? std::max(y[to], x[i]) : y[to] + x[i];
    });
  }

  static double pointwise(Operation::Kind kind, const std::vector<Elements>& in, const Extents& i) {
    using Kind = Operation::Kind;
    const double a = in[0][i], b = in.size() > 1 ? in[1][i] : 0;
    switch (kind) {
      case Kind::Add:
        return a + b;
      case Kind::Subtract:
        return a - b;
      case Kind::Multiply:
        return a * b;
      case Kind::Divide:
        return a / b;
      case Kind::Exp:
        return std::exp(a);
      case Kind::Log:
        return std::log(a);
      case Kind::GreaterEqual:
        return a >= b ? 1 : 0;
      case Kind::Select:
        return in[2][i] != 0 ? a : b;
      default:
        return a;
    }
  }

  const cuda::cudnn::Graph& graph_;
  Operands& operands_;
  std::vector<Elements> known_;
};

}  // namespace lockstep::test
