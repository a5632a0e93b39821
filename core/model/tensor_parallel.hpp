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
//
// With LayerShape::tensor_parallel_chunks the gathers and scatters of rows go in as many parts,
// each beside the product of another part (Wang et al. 2023, Overlap Communication with Dependent
// Computation via Decomposition; the pipelined kind of Transformer Engine's tp_comm_overlap). All
// rows are divided into parts, and every part over the ranks: a rank's own rows are its share of
// the first part, then that of the second, … What is gathered of one part then lies together, and
// nothing is ever put in order. Only products whose result or input is communicated are divided;
// those of weight gradients take all rows at once.
#pragma once

#include <optional>
#include <string>

#include "core/model/dropout.hpp"
#include "core/model/function_builder.hpp"
#include "core/model/layer_parameters.hpp"
#include "core/model/model.hpp"
#include "core/model/products.hpp"

namespace lockstep {

class TensorParallel {
 public:
  /// With `stages` pipeline ranks that divide the layer, too, sums are taken over these as well.
  /// `adapter_scale`: by what the result of adapters is multiplied, if there are any.
  TensorParallel(FunctionBuilder& f, const LayerShape& shape, int stages = 1,
                 double adapter_scale = 0)
      : f_(f), shape_(shape), stages_(stages), adapter_scale_(adapter_scale) {}
  /// Lets linear layers that are made from now on multiply in 8 bits, if the shape says so.
  void multiply_narrow() { float8_ = shape_.float8; }
  bool active() const { return shape_.tensor_parallel * stages_ > 1; }
  /// Whether rows that a product needs are gathered for it, and again for the backward pass.
  bool gathers_rows() const { return shape_.tensor_parallel > 1 && shape_.sequence_parallel; }
  /// Into how many parts rows are divided that are gathered or scattered.
  int chunks() const { return gathers_rows() ? shape_.tensor_parallel_chunks : 1; }
  /// Part `chunk` of rows: of all, or of own ones.
  TensorId chunk(TensorId rows, int chunk) const { return f_.part(rows, chunk, chunks()); }
  std::int64_t rows() const { return shape_.rows(); }
  std::int64_t own_rows() const { return shape_.own_rows(); }
  /// Whether the gradient of a weight is computed while that of the input is summed up.
  bool overlaps_weight_gradients() const { return shape_.overlaps_weight_gradients; }
  double adapter_scale() const { return adapter_scale_; }
  /// The products of the layer `name`, whose outputs the ranks of "tp" divide, or its inputs. Those
  /// of "cp" have other tokens.
  LinearProducts products(const std::string& name, bool divides_outputs,
                          const LinearTensors& weights) const {
    const Divider tp{"tp", shape_.tensor_parallel}, cp{"cp", shape_.context_parallel};
    const Dividers rows = {cp}, both = {tp, cp};
    return {f_,
            float8_,
            sum_type(shape_.dtype),
            name,
            divides_outputs ? rows : both,
            {tp},
            divides_outputs ? both : rows,
            weights.scales,
            weights.largest,
            weights.gw.valid()};
  }

  /// The products of the layer `name`, which every rank of "tp" has whole: for all rows, or for its
  /// own.
  LinearProducts whole_products(const std::string& name, const LinearTensors& weights) const {
    Dividers rows = {{"cp", shape_.context_parallel}};
    if (gathers_rows()) rows.push_back({"tp", shape_.tensor_parallel});
    return {f_,
            float8_,
            sum_type(shape_.dtype),
            name,
            rows,
            {},
            rows,
            weights.scales,
            weights.largest,
            weights.gw.valid()};
  }

  /// All rows of `x`, whose own rows have `width` columns: gathered as tensor `name`, or x itself.
  /// What reads a chunk of them waits for that alone.
  TensorId all_rows(Part part, TensorId x, std::int64_t width, const std::string& name);
  /// The tensor for products of which sum() makes `result`: all rows as tensor `name`, or `result`
  /// itself.
  TensorId partial(TensorId result, std::int64_t width, const std::string& name);
  /// Makes `result`, which has own rows, the sum of `partial` over "tp", then over the stages.
  void sum(Part part, TensorId partial, TensorId result);
  /// The same chunk by chunk, in their order.
  void sum_chunk(Part part, TensorId partial, TensorId result, int chunk);

 private:
  FunctionBuilder& f_;
  const LayerShape& shape_;
  const int stages_;
  const double adapter_scale_;
  Float8Factors float8_;
};

/// The low-rank adapter beside a linear layer: adds scale · x aᵀ bᵀ to its result. Under tensor
/// parallelism x aᵀ, or its gradient, is a term of a sum over the ranks, and so is what is made of
/// it, since all of this is linear: the layer's own sum is also the adapter's. Without an adapter
/// its functions do nothing. Elements of x may be dropped for it: which of them is the same for
/// terms of a sum as for the sum.
class Adapter {
 public:
  Adapter(FunctionBuilder& f, double scale, std::int64_t rows, std::int64_t in,
          const AdapterTensors& weights);
  /// Drops a share of x, as `place` of the layer. With `again` it is dropped once more for the
  /// gradient of `a`, where nothing is kept of x, whose rows are gathered anew.
  void drop(double share, DropoutPlace place, DropoutOf of, bool again);
  /// Computes scale · x aᵀ. The others need it.
  void forward(TensorId x);
  /// Adds to y [rows, out], or to one of `chunks` parts of its rows, the product with `b`, this
  /// layer's or a part of its rows.
  void add_to(TensorId y, std::int64_t out, TensorId b, int chunk = 0, int chunks = 1);
  /// Takes the gradient of what add_to() got. It computes that of `b`.
  void backward(TensorId dy, std::int64_t out, TensorId b, TensorId gb);
  /// When it has taken all: adds the gradient of x [rows, in] to dx, or to a part of its rows.
  void add_input_gradient(TensorId dx, int chunk = 0, int chunks = 1);
  void weight_gradient(TensorId x);

 private:
  bool active() const { return weights_.a.valid(); }
  FunctionBuilder& f_;
  double scale_;
  std::int64_t rows_, in_, rank_;
  AdapterTensors weights_;
  std::optional<Dropout> dropout_;
  bool again_ = false;
  TensorId dropped_;  // x as it is after dropout; invalid if it is made again
  TensorId z_, dz_, dz_scaled_;
};

/// What both kinds of divided linear layer have.
class DividedLinear {
 public:
  DividedLinear(FunctionBuilder& f, TensorParallel& tp, std::string name, std::int64_t in,
                std::int64_t out, const LinearTensors& weights, bool divides_outputs)
      : f_(f),
        tp_(tp),
        name_(std::move(name)),
        in_(in),
        out_(out),
        divides_outputs_(divides_outputs),
        weights_(weights),
        products_(tp.products(name_, divides_outputs, weights)),
        adapter_(f, tp.adapter_scale(), tp.rows(), in, weights.adapter) {}

  /// Lets a share of what its adapter reads be dropped.
  void drop_for_adapter(double share, DropoutPlace place) {
    const bool gathers = tp_.gathers_rows();
    adapter_.drop(share, place, {gathers, !divides_outputs_ && tp_.active()},
                  divides_outputs_ && gathers);
  }

 protected:
  FunctionBuilder& f_;
  TensorParallel& tp_;
  std::string name_;
  std::int64_t in_, out_;
  bool divides_outputs_;
  LinearTensors weights_;
  LinearProducts products_;
  Adapter adapter_;
  TensorId x_;
};

/// y[rows, out] = x[rows, in] · wᵀ + b, with `out` this rank's share of the features.
class ColumnLinear : public DividedLinear {
 public:
  ColumnLinear(FunctionBuilder& f, TensorParallel& tp, std::string name, std::int64_t in,
               std::int64_t out, const LinearTensors& weights)
      : DividedLinear(f, tp, std::move(name), in, out, weights, true) {}
  /// Lets more columns of y, the last ones, be the product with other weights, which are divided in
  /// another way.
  void beside(std::int64_t out, const LinearTensors& weights) {
    more_ = out;
    others_ = weights;
  }
  void forward(TensorId x, TensorId y);  // x: own rows
  void backward(TensorId dy, TensorId dx);

 private:
  std::int64_t more_ = 0;
  LinearTensors others_;
};

/// y[rows, out] = x[rows, in] · wᵀ summed over "tp" + b + residual, with `in` this rank's share.
class RowLinear : public DividedLinear {
 public:
  RowLinear(FunctionBuilder& f, TensorParallel& tp, std::string name, std::int64_t in,
            std::int64_t out, const LinearTensors& weights)
      : DividedLinear(f, tp, std::move(name), in, out, weights, false) {}
  /// Lets this dropout, which must outlive it, drop elements of the sum and the bias.
  void drop(Dropout& dropout) { dropout_ = &dropout; }
  /// `residual`, which may be absent, and `y` are own rows. Without a residual y needs a name.
  void forward(TensorId x, TensorId residual, TensorId y);
  void backward(TensorId dy, TensorId dx);

 private:
  bool drops() const { return dropout_ != nullptr && dropout_->active(); }
  /// Computes a chunk of y, all rows or terms of their sum.
  void multiply(int chunk, TensorId bias, TensorId residual, TensorId y);
  Dropout* dropout_ = nullptr;
};

}  // namespace lockstep
