// Products: the three products of a linear layer y = x wᵀ, in the parameters' type or in 8 bits.
//
// In 8 bits every factor is rounded to a format of its own, with a scale for every block of
// elements that are summed over (TrainingSpec::fp8_recipe). A tensor that two products sum over in
// different directions is therefore rounded twice: as it lies, and transposed.
//
//   y  = x wᵀ    sums over inputs     x by rows             w by rows
//   dx = dy w    sums over outputs    dy by rows            w by columns
//   dw = dyᵀ x   sums over tokens     dy by columns         x by columns
//
// Of x, the codes by columns are made in forward and kept in its place, one byte an element instead
// of its own two, wherever nothing else reads x in the backward pass. Weights are rounded anew in
// every forward and every backward pass. Blocks that lie whole on one rank have the same codes in
// every layout. One scale of a whole tensor is that of all ranks that divide it: each finds the
// scale of what it holds, and they gather these, the largest of which is that of the whole. A
// scale that follows from earlier steps (delayed scaling) is known before: nothing is gathered, a
// tensor is read once, and its largest magnitude is kept for the scales of the next steps.
#pragma once

#include <array>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/model/function_builder.hpp"

namespace lockstep {

/// The formats of factors in 8 bits, by their bits of mantissa (core/base/float8.hpp), and the
/// blocks that share a scale.
struct Float8Factors {
  int forward = 0;              // of activations and weights; 0: products are not in 8 bits
  int gradient = 0;             // of gradients of activations
  std::int64_t block = 0;       // elements that are summed over; 0: the whole tensor
  bool square_weights = false;  // blocks of weights have as many rows; otherwise they have one
  int history = 0;  // steps whose largest magnitudes give a tensor's scale; 0: the tensor at hand
  bool active() const { return forward != 0; }
  bool delayed() const { return active() && history > 0; }
  bool operator==(const Float8Factors&) const = default;
};

/// Ranks along an axis of the mesh that divide a tensor.
struct Divider {
  std::string axis;
  std::int64_t ranks = 1;
};
using Dividers = std::vector<Divider>;

class LinearProducts {
 public:
  /// `name` is the layer's; `scales` the type of scales. With one scale for a tensor at hand,
  /// `inputs`, `weights` and `outputs` say who divides x, w and dy; ranks that are one divide
  /// nothing. `known` and `largest` are LinearTensors::scales and largest. Weights that are not
  /// trained have no product over tokens, and what that would read is rounded in one direction.
  LinearProducts(FunctionBuilder& f, const Float8Factors& float8, DType scales, std::string name,
                 Dividers inputs, Dividers weights, Dividers outputs, TensorId known = {},
                 TensorId largest = {}, bool trained = true)
      : f_(f),
        float8_(float8),
        scales_(scales),
        name_(std::move(name)),
        inputs_(std::move(inputs)),
        weights_(std::move(weights)),
        outputs_(std::move(outputs)),
        known_scales_(known),
        largest_(largest),
        trained_(trained) {}

  /// y[rows, out] = x[rows, in] · w[out, in]ᵀ (+ bias) (+ residual). `keeps_x` says that
  /// weight_gradient() gets the same x, and not one that is gathered again.
  void forward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId x, TensorId w,
               TensorId bias, TensorId residual, TensorId y, bool keeps_x);
  /// For products of parts of the rows of x, of which weight_gradient() gets all.
  void keep(std::int64_t rows, std::int64_t in, TensorId x);
  /// dx = dy · w (+ residual)
  void input_gradient(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId dy, TensorId w,
                      TensorId residual, TensorId dx);
  /// dw += dyᵀ · x. Nothing is computed for a `dw` that is invalid.
  void weight_gradient(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId dy,
                       TensorId x, TensorId dw);

 private:
  struct Codes {
    TensorId values, scales;
    std::int64_t across = 1, along = 1;
    int mantissa = 0;
  };
  /// A factor of a product, x [rows, cols], before it is rounded.
  struct Factor {
    TensorId x;
    std::int64_t rows, cols;
    std::int64_t across;  // rows of a block
    int mantissa;
    const Dividers& dividers;
    const char* name;
    int place;  // of its scale among those that are known
  };
  Factor activation(TensorId x, std::int64_t rows, std::int64_t cols,
                    const char* name = "x") const {
    return {x, rows, cols, 1, float8_.forward, inputs_, name, 0};
  }
  Factor weight(TensorId w, std::int64_t rows, std::int64_t cols) const {
    return {w,        rows, cols, float8_.square_weights ? float8_.block : 1, float8_.forward,
            weights_, "w",  1};
  }
  Factor gradient(TensorId dy, std::int64_t rows, std::int64_t cols) const {
    return {dy, rows, cols, 1, float8_.gradient, outputs_, "dy", 2};
  }
  /// The factor, or its transpose, in 8 bits; a tensor is rounded once in each direction.
  const Codes& rounded(Part part, const Factor& factor, bool transposed);
  /// For a tensor that has one scale: those of what each of the ranks that divide it holds.
  TensorId gathered_scales(Part part, const Factor& factor);
  /// Whether the largest magnitude of a factor is found where it is rounded so.
  bool measures(const Factor& factor, bool transposed) const;
  void keep_largest();
  void multiply(Part part, std::int64_t m, std::int64_t n, std::int64_t k, bool by_rows,
                const Codes& a, const Codes& b, TensorId bias, TensorId residual, TensorId c);

  FunctionBuilder& f_;
  Float8Factors float8_;
  DType scales_;
  std::string name_;
  Dividers inputs_, weights_, outputs_;
  TensorId known_scales_, largest_;
  bool trained_;
  std::array<TensorId, 3> found_{};  // of x, w and dy: the largest magnitudes of a microbatch
  std::map<std::pair<int, bool>, Codes> known_;  // by tensor, and whether it is transposed
};

}  // namespace lockstep
