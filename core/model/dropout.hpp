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

class Dropout {
 public:
  /// Of rows of `cols` elements, of which it drops a share of `share`; 0: nothing.
  Dropout(FunctionBuilder& f, double share, DropoutPlace place, std::int64_t rows,
          std::int64_t cols);
  bool active() const { return share_ > 0; }
  /// y = residual + kept (x + bias) / (1 - share). Residual and bias may be absent.
  void forward(TensorId x, TensorId residual, TensorId bias, TensorId y);
  /// The gradient of x + bias: that of y where it was kept. Without dropout it is dy itself. `name`
  /// is that of the tensor, if it is communicated.
  TensorId backward(Part part, TensorId dy, const std::string& name = {});

  /// Adds the gradient of x to dx.
  void add_backward(Part part, TensorId dy, TensorId dx);

 private:
  void emit(Part part, std::vector<TensorId> in, TensorId y);
  FunctionBuilder& f_;
  double share_;
  DropoutPlace place_;
  std::int64_t rows_, cols_;
  TensorId keys_;
};

}  // namespace lockstep
