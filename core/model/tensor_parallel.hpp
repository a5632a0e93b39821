// TensorParallel: tensor and sequence parallelism inside a layer (Shoeybi et al. 2019; Korthikanti
// et al. 2022). Linear layers come in pairs. The output features of the first, which is
// column-parallel, are divided over the ranks of "tp"; the second is row-parallel: its input
// features are divided, and its products are partial sums. Without tensor parallelism, both are
// plain linear layers, with bias and residual added in the product.
//
//   between pairs a rank holds     forward                            backward
//   all rows                       sums: all-reduce                   dx: all-reduce
//   its share of the rows (SP)     x: all-gather; sums:               dy: all-gather; x again;
//                                  reduce-scatter                     dx: reduce-scatter
#pragma once

#include <string>

#include "core/model/function_builder.hpp"
#include "core/model/layer_parameters.hpp"
#include "core/model/model.hpp"

namespace lockstep {

class TensorParallel {
 public:
  /// With `stages` pipeline ranks that divide the layer, too, sums are taken over these as well.
  TensorParallel(FunctionBuilder& f, const LayerShape& shape, int stages = 1)
      : f_(f), shape_(shape), stages_(stages) {}
  bool active() const { return shape_.tensor_parallel * stages_ > 1; }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t own_rows() const { return shape_.own_rows(); }
  /// Whether the gradient of a weight is computed while that of the input is summed up.
  bool overlaps_weight_gradients() const { return shape_.overlaps_weight_gradients; }

  /// All rows of `x`, whose own rows have `width` columns: gathered as tensor `name`, or x itself.
  TensorId all_rows(Part part, TensorId x, std::int64_t width, const std::string& name);
  /// The tensor for products of which sum() makes `result`: all rows as tensor `name`, or `result`
  /// itself.
  TensorId partial(TensorId result, std::int64_t width, const std::string& name);
  /// Makes `result`, which has own rows, the sum of `partial` over "tp", then over the stages.
  void sum(Part part, TensorId partial, TensorId result);

 private:
  bool by_rows() const { return shape_.tensor_parallel > 1 && shape_.sequence_parallel; }
  FunctionBuilder& f_;
  const LayerShape& shape_;
  const int stages_;
};

/// y[rows, out] = x[rows, in] · wᵀ + b, with `out` this rank's share of the features.
class ColumnLinear {
 public:
  ColumnLinear(FunctionBuilder& f, TensorParallel& tp, std::string name, std::int64_t in,
               std::int64_t out, const LinearTensors& weights)
      : f_(f), tp_(tp), name_(std::move(name)), in_(in), out_(out), weights_(weights) {}
  /// Lets more columns of y, the last ones, be the product with other weights, which are divided in
  /// another way.
  void beside(std::int64_t out, const LinearTensors& weights) {
    more_ = out;
    others_ = weights;
  }
  void forward(TensorId x, TensorId y);  // x: own rows
  void backward(TensorId dy, TensorId dx);

 private:
  FunctionBuilder& f_;
  TensorParallel& tp_;
  std::string name_;
  std::int64_t in_, out_, more_ = 0;
  LinearTensors weights_, others_;
  TensorId x_;
};

/// y[rows, out] = x[rows, in] · wᵀ summed over "tp" + b + residual, with `in` this rank's share.
class RowLinear {
 public:
  RowLinear(FunctionBuilder& f, TensorParallel& tp, std::string name, std::int64_t in,
            std::int64_t out, const LinearTensors& weights)
      : f_(f), tp_(tp), name_(std::move(name)), in_(in), out_(out), weights_(weights) {}
  /// `residual` and `y` are own rows. Without a residual there must be no bias, and y needs a name.
  void forward(TensorId x, TensorId residual, TensorId y);
  void backward(TensorId dy, TensorId dx);

 private:
  FunctionBuilder& f_;
  TensorParallel& tp_;
  std::string name_;
  std::int64_t in_, out_;
  LinearTensors weights_;
  TensorId x_;
};

}  // namespace lockstep
