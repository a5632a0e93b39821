// Dropout: what a branch adds to the residual, or the embedding gives, with some of its elements
// dropped at random in training (core/base/dropout.hpp).
#pragma once

#include <cstdint>
#include <string>

#include "core/model/function_builder.hpp"

namespace lockstep {

/// The places of a layer that have dropout, which draw apart from each other.
enum class DropoutPlace : std::uint8_t {
  Embedding,
  Attention,
  FeedForward,
  AdapterOfQkv,  // the inputs of the adapters of a block's linear layers
  AdapterOfProjection,
  AdapterOfFc1,
  AdapterOfFc2,
};

/// Of which rows and columns a rank drops elements: of those that it holds between layers, with all
/// their columns, unless it is said otherwise.
struct DropoutOf {
  bool all_rows = false;  // also of those of the ranks that share them with it
  bool part = false;      // of its part of the columns, which the ranks of "tp" divide evenly
};

class Dropout {
 public:
  /// Of rows of `cols` elements, of which it drops a share of `share`; 0: nothing.
  Dropout(FunctionBuilder& f, double share, DropoutPlace place, std::int64_t rows,
          std::int64_t cols, DropoutOf of = {});
  bool active() const { return share_ > 0; }
  /// y = residual + kept (x + bias) / (1 - share). Residual and bias may be absent.
  void forward(TensorId x, TensorId residual, TensorId bias, TensorId y);
  /// The gradient of x + bias: that of y where it was kept. Without dropout it is dy itself. `name`
  /// is that of the tensor, if it is communicated.
  TensorId backward(Part part, TensorId dy, const std::string& name = {});

  /// The result of forward(x) without residual and bias, made in any part.
  TensorId dropped(Part part, TensorId x);
  /// Adds the gradient of x to dx, both of them one of `chunks` parts of the rows.
  void add_backward(Part part, TensorId dy, TensorId dx, int chunk = 0, int chunks = 1);

 private:
  void emit(Part part, std::vector<TensorId> in, TensorId y, int chunks = 1);
  FunctionBuilder& f_;
  double share_;
  DropoutPlace place_;
  std::int64_t rows_, cols_;
  TensorId keys_;
  TensorId part_;  // invalid if the columns are all
};

}  // namespace lockstep
