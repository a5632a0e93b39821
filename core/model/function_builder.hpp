// FunctionBuilder: writes a layer's forward and backward once, as kernels over named tensors with
// communications between them, and cuts them into the steps of F, B, I and W. Where a tensor lives
// follows from who uses it:
//   forward and backward     -> "saved": alive from F to the backward pass
//   I and W                  -> "stash" when backward is split, scratch when it is not
//   one function only        -> "ws": scratch, reused inside the part
//   computed twice           -> scratch in F; "recomputed" from R, just before backward, on
//   a communication          -> a buffer of its own, a formal by the tensor's name
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ir/program.hpp"
#include "core/spec/activation_checkpoint.hpp"

namespace lockstep {

/// Where a kernel or communication belongs. Backward: once in B; in I and in W each when backward
/// is split, which repeats it rather than keeping its result (a gather of what is there in shards).
enum class Part : std::uint8_t { Forward = 1, InputGrad = 2, WeightGrad = 4, Backward = 6 };
constexpr unsigned bits(Part part) { return static_cast<unsigned>(part); }

using TensorId = Id<struct TensorTag>;

/// A collective inside a layer, over the ranks along a mesh axis ("tp", "cp"). The formals are
/// those that the functions around it name; in an all-reduce or broadcast both are the same.
struct Communication {
  OpKind kind = OpKind::AllReduce;
  std::string axis;
  Formal in, out;
  bool operator==(const Communication&) const = default;
};

/// What a layer does next: a compute segment, or a communication between two of them.
using LayerStep = std::variant<Function, Communication>;
Work work(const std::vector<LayerStep>& steps);

class FunctionBuilder {
 public:
  /// `dtype`: of parameters and activations; `gradient_dtype`: of parameters' gradients.
  FunctionBuilder(std::string layer_name, DType dtype, DType gradient_dtype);

  /// A tensor inside formal `formal` at `offset` elements (a parameter in "w", its gradient in
  /// "gw"). `formal_elements` is the size of the whole formal.
  TensorId inside(std::string_view formal, std::int64_t offset, std::int64_t elements,
                  std::int64_t formal_elements);
  TensorId inside(std::string_view formal, std::int64_t offset, std::int64_t elements,
                  std::int64_t formal_elements, DType dtype);
  /// A tensor that is a formal of its own: "x", "y", "dy", "dx", "tokens", "loss".
  TensorId formal(std::string_view name, std::int64_t elements, DType dtype);
  TensorId formal(std::string_view name, std::int64_t elements);
  /// A tensor whose home follows from its use. One that is communicated needs a name of its own.
  TensorId tensor(std::int64_t elements, std::string name = {});
  TensorId tensor(std::int64_t elements, DType dtype, std::string name = {});

  struct Call {
    std::vector<std::int64_t> dims;
    std::vector<double> scalars;
    std::vector<TensorId> in, out;  // invalid ids: absent optional operands
  };
  void emit(Part part, KernelKind kind, Call call);
  /// A communication: kernels before it go on before, kernels that touch `out` wait for it, and
  /// those between run beside it. All-reduce and broadcast: `in` and `out` are the same.
  void communicate(Part part, OpKind kind, std::string axis, TensorId in, TensorId out);

  /// y[rows, out] = x[rows, in] · w[out, in]ᵀ (+ bias) (+ residual)
  void linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId x, TensorId w,
                      TensorId bias, TensorId residual, TensorId y);
  /// dx = dy · w (I); dw += dyᵀ · x and dbias += column sums of dy (W). Invalid: none wanted.
  void linear_backward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId dy,
                       TensorId x, TensorId w, TensorId dx, TensorId dw, TensorId dbias);

  /// What a part does, in the order of emission; gradient formals named in `accumulate` are added
  /// to, others overwritten (their padding included). The name of a function is
  /// "<layer>.<letter>", of a later segment with its number, then "+" and the formals that it
  /// accumulates: "block.B", "block.B.1+gw". The segments of a part share one "ws".
  std::vector<LayerStep> forward() const;
  std::vector<LayerStep> backward(Part part,
                                  const std::vector<std::string>& accumulate) const;  // I or W
  std::vector<LayerStep> backward(const std::vector<std::string>& accumulate) const;  // B
  /// Lets backward have these results of forward from a second computation.
  void recompute(const Recompute& what);
  /// That computation, "<layer>.R": as much of forward as it takes, from what is kept. Empty if all
  /// is.
  std::vector<LayerStep> recomputation() const;
  /// Elements of "gw"-like formals past their last parameter, which backward must zero.
  void set_padding(std::string_view formal, std::int64_t first, std::int64_t elements);

  /// True if the communicated tensor `formal` lives from one part to another (saved, stashed).
  bool outlives_part(std::string_view formal) const;
  /// Element type of the communicated tensor `formal`.
  DType dtype_of(std::string_view formal) const;

 private:
  friend class StepAssembly;
  struct TensorInfo {
    std::string formal;  // empty: home follows from use
    DType dtype = DType::F32;
    std::int64_t elements = 0;
    std::int64_t offset = 0;           // elements
    std::int64_t formal_elements = 0;  // of the whole formal
    std::string name;                  // the formal if it is communicated
    bool communicated = false;
    bool dropped = false;      // not kept after forward
    unsigned used_in = 0;      // bits of Part
    unsigned produced_in = 0;  // bits of Part: written there before anything reads it
  };
  struct Emitted {
    Part part;
    KernelKind kind;
    Call call;         // of a communication: one tensor on each side
    std::string axis;  // empty: a kernel
    OpKind collective = OpKind::AllReduce;
  };
  void touch(Part part, TensorId tensor, bool write);

  std::string layer_name_;
  DType dtype_, gradient_dtype_;
  IndexVector<TensorId, TensorInfo> tensors_;
  std::vector<Emitted> emitted_;
  std::vector<TensorId> padding_;
};

}  // namespace lockstep
