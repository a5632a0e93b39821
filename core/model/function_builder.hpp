// FunctionBuilder: writes a layer's forward and backward once, as kernels over named tensors, and
// cuts them into the functions F, B, I and W. Where a tensor lives follows from who uses it:
//   forward and backward     -> "saved": alive from F to the backward pass
//   I and W                  -> "stash" when backward is split, scratch when it is not
//   one function only        -> "ws": scratch, reused inside the function
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

enum class Part : std::uint8_t { Forward = 1, InputGrad = 2, WeightGrad = 4 };

struct TensorId {
  int v = -1;
  bool valid() const { return v >= 0; }
};

class FunctionBuilder {
 public:
  FunctionBuilder(std::string layer_name, DType dtype);

  /// A tensor inside formal `formal` at `offset` elements (a parameter in "w", its gradient in
  /// "gw"). `formal_elements` is the size of the whole formal.
  TensorId inside(std::string_view formal, std::int64_t offset, std::int64_t elements,
                  std::int64_t formal_elements);
  /// A tensor that is a formal of its own: "x", "y", "dy", "dx", "tokens", "loss".
  TensorId formal(std::string_view name, std::int64_t elements, DType dtype);
  TensorId formal(std::string_view name, std::int64_t elements);
  /// A tensor whose home follows from its use.
  TensorId tensor(std::int64_t elements);

  struct Call {
    std::vector<std::int64_t> dims;
    std::vector<double> scalars;
    std::vector<TensorId> in, out;  // invalid ids: absent optional operands
  };
  void emit(Part part, KernelKind kind, Call call);

  /// y[rows, out] = x[rows, in] · w[out, in]ᵀ (+ bias) (+ residual)
  void linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId x, TensorId w,
                      TensorId bias, TensorId residual, TensorId y);
  /// dx = dy · w (I); dw += dyᵀ · x and dbias += column sums of dy (W). Invalid dx: none wanted.
  void linear_backward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId dy,
                       TensorId x, TensorId w, TensorId dx, TensorId dw, TensorId dbias);

  /// Kernels of `parts` in the order of emission; gradient formals named in `accumulate` are added
  /// to, others overwritten (their padding included). The name is "<layer>.<letter>" with "+" and
  /// the accumulated formals: "block.B+gw".
  Function forward() const;
  Function backward(Part part, const std::vector<std::string>& accumulate) const;  // I or W
  Function backward(const std::vector<std::string>& accumulate) const;             // B
  /// Elements of "gw"-like formals past their last parameter, which backward must zero.
  void set_padding(std::string_view formal, std::int64_t first, std::int64_t elements);

 private:
  struct TensorInfo {
    std::string formal;  // empty: home follows from use
    DType dtype = DType::F32;
    std::int64_t elements = 0;
    std::int64_t offset = 0;           // elements
    std::int64_t formal_elements = 0;  // of the whole formal
    unsigned used_in = 0;              // bits of Part
  };
  struct Emitted {
    Part part;
    KernelKind kind;
    Call call;
  };
  Function build(std::string name, unsigned parts, bool split,
                 const std::vector<std::string>& accumulate) const;

  std::string layer_name_;
  DType dtype_;
  std::vector<TensorInfo> tensors_;
  std::vector<Emitted> kernels_;
  std::vector<TensorId> padding_;
};

}  // namespace lockstep
