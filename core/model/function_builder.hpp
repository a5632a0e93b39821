// FunctionBuilder: takes a layer's forward and backward pass, each written once as kernels over
// named tensors with communications between them, and cuts them into the steps of F, B, I and W.
// Where a tensor lives follows from who uses it:
//   used in forward and backward  "saved": alive from F to the backward pass; "saved_input" if
//                                 backward is split and W does not use it, so that it ends with I
//   used in I and W               "stash" if backward is split, otherwise scratch memory
//   used in one function only     "ws": scratch memory, reused inside the part
//   computed twice                scratch memory in F, then "recomputed" from R on, just before
//                                 the backward pass; "recomputed_input" likewise
//   communicated                  a buffer of its own, a formal with the tensor's name
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/ir/program.hpp"
#include "core/spec/activation_checkpoint.hpp"

namespace lockstep {

/// The part to which a kernel or communication belongs. One that belongs to Backward is in B once;
/// if backward is split, it is in both I and W, which repeats it instead of keeping its result, as
/// for a gather of shards.
enum class Part : std::uint8_t { Forward = 1, InputGrad = 2, WeightGrad = 4, Backward = 6 };
constexpr unsigned bits(Part part) { return static_cast<unsigned>(part); }

using TensorId = Id<struct TensorTag>;

/// A collective inside a layer, over the ranks along an axis of the mesh ("tp", "cp"). Its formals
/// are those that the functions around it name; in an all-reduce or broadcast, both are the same.
struct Communication {
  OpKind kind = OpKind::AllReduce;
  std::string axis;
  Formal in, out;
  /// Where rows are counted: the counts that follow `in` and `out` among the arguments, and what
  /// Role::rows_of() will say.
  std::vector<Formal> counts = {};
  ExpectedRows rows = {};
  bool operator==(const Communication&) const = default;
};

/// A step of a layer: a segment of compute, or a communication between two segments.
using LayerStep = std::variant<Function, Communication>;
Work work(const std::vector<LayerStep>& steps);

class FunctionBuilder {
 public:
  /// `dtype` is the type of parameters and activations, `gradient_dtype` that of parameters'
  /// gradients.
  FunctionBuilder(std::string layer_name, DType dtype, DType gradient_dtype);

  /// A tensor inside a formal, `offset` elements from its start, such as a parameter in "w" or its
  /// gradient in "gw". `formal_elements` is the size of the whole formal.
  TensorId inside(std::string_view formal, std::int64_t offset, std::int64_t elements,
                  std::int64_t formal_elements);
  TensorId inside(std::string_view formal, std::int64_t offset, std::int64_t elements,
                  std::int64_t formal_elements, DType dtype);
  /// A tensor that is a formal of its own: "x", "y", "dy", "dx", "tokens", "loss".
  TensorId formal(std::string_view name, std::int64_t elements, DType dtype);
  TensorId formal(std::string_view name, std::int64_t elements);
  /// A tensor whose place follows from its use. One that is communicated needs a unique name.
  TensorId tensor(std::int64_t elements, std::string name = {});
  TensorId tensor(std::int64_t elements, DType dtype, std::string name = {});
  /// One of `count` equal parts of a tensor, one behind the other; of one alone, the tensor itself.
  /// What is communicated part by part is waited for part by part. Requires that no part of it is
  /// divided again, and that all who divide the tensor divide it alike.
  TensorId part(TensorId whole, int index, int count);

  /// One element of a tensor inside a formal.
  TensorId element(TensorId tensor, std::int64_t index);

  DType dtype() const { return dtype_; }
  std::int64_t elements(TensorId tensor) const { return tensors_[tensor].elements; }
  /// Room for `bytes` that another's kernels keep from forward to backward where those here do not:
  /// it lives wherever, and as long as, `beside` does. No kernel touches it.
  void keep(std::int64_t bytes, TensorId beside);

  struct Call {
    std::vector<std::int64_t> dims;
    std::vector<double> scalars;
    std::vector<TensorId> in, out;  // an invalid id stands for an absent optional operand
    bool accumulate = false;        // Kernel::accumulate; weight gradients also from backward()
  };
  /// A call without any output, such as one for gradients of parameters that are frozen, is left
  /// out; where only some of its outputs are missing, they go to scratch memory.
  void emit(Part part, KernelKind kind, Call call);
  /// Drops what only gradients would need that nobody keeps, such as those of frozen parameters:
  /// kernels, communications, and what is saved for them.
  void drop_unneeded();
  /// Emits a communication. Kernels before it run before it, kernels that touch `out` wait for it,
  /// and those between run beside it. For an all-reduce or broadcast, `in` and `out` are the same.
  void communicate(Part part, OpKind kind, std::string axis, TensorId in, TensorId out);
  /// Emits a communication of as many rows of `width` elements as `counts` say, which are those
  /// that the kind of op has. A member is expected to have `rows` of them.
  struct CountedRows {
    std::vector<TensorId> counts;
    std::int64_t rows = 0, width = 0;
  };
  void communicate_rows(Part part, OpKind kind, std::string axis, TensorId in, TensorId out,
                        const CountedRows& counted);

  /// y[rows, out] = x[rows, in] · w[out, in]ᵀ (+ bias) (+ residual)
  void linear_forward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId x, TensorId w,
                      TensorId bias, TensorId residual, TensorId y);
  /// dx = dy · w in I; dw += dyᵀ · x and dbias += column sums of dy in W. What is invalid is not
  /// computed.
  void linear_backward(std::int64_t rows, std::int64_t in, std::int64_t out, TensorId dy,
                       TensorId x, TensorId w, TensorId dx, TensorId dw, TensorId dbias);

  /// The steps of a part, in the order of emission. They add to the gradients that `accumulate`
  /// names, and overwrite others, with their padding. The name of a function is "<layer>.<letter>",
  /// with a number for a later segment, then "+" and the formals to which it adds: "block.B",
  /// "block.B.1+gw". The segments of a part share one "ws".
  std::vector<LayerStep> forward() const;
  std::vector<LayerStep> backward(Part part,
                                  const std::vector<std::string>& accumulate) const;  // I or W
  std::vector<LayerStep> backward(const std::vector<std::string>& accumulate) const;  // B
  /// Makes the backward pass get these results of forward from a second computation. What that
  /// reads of the others is kept for it, but what is gathered or passed on is so again. With
  /// `to_end` all of `what.to_end` is computed again, whether something needs the results or not.
  void recompute(const Recompute& what, bool to_end = false);
  /// What is emitted as long as the value lives is of `part` of a block, whose product stands for
  /// `products` of torchtitan's.
  class [[nodiscard]] Within {
   public:
    Within(FunctionBuilder& f, ForwardPart part, int products)
        : f_(f), part_(f.forward_part_), products_(f.products_) {
      f.forward_part_ = part;
      f.products_ = products;
    }
    Within(const Within&) = delete;
    Within& operator=(const Within&) = delete;
    ~Within() {
      f_.forward_part_ = part_;
      f_.products_ = products_;
    }

   private:
    FunctionBuilder& f_;
    ForwardPart part_;
    int products_;
  };
  Within within(ForwardPart part, int products = 1) { return {*this, part, products}; }
  /// Says that backward runs as I and W, with other work between them: what only I reads gets a
  /// buffer of its own, which is free before W, as autograd frees it (Qi et al. 2023 keep only the
  /// inputs of products and the gradients of their results for W).
  void split_backward() { split_ = true; }
  /// That second computation, "<layer>.R": as much of forward as is needed, from what is kept.
  /// Empty if everything is kept.
  std::vector<LayerStep> recomputation() const;
  /// Says that these elements of a gradient's formal are padding, which the backward pass must
  /// zero.
  void set_padding(std::string_view formal, std::int64_t first, std::int64_t elements);

  /// Whether the communicated tensor `formal` lives from one part to another, as "saved" and
  /// "stash" do.
  bool outlives_part(std::string_view formal) const;
  /// How many elements the formal `name` has; 0 if there is none of this name.
  std::int64_t elements_of(std::string_view name) const;
  /// The element type of the communicated tensor `formal`.
  DType dtype_of(std::string_view formal) const;

 private:
  friend class StepAssembly;
  struct TensorInfo {
    std::string formal;  // empty if its place follows from its use
    DType dtype = DType::F32;
    std::int64_t elements = 0;
    std::int64_t offset = 0;           // in elements
    std::int64_t formal_elements = 0;  // size of the whole formal
    std::string name;                  // name of its formal if it is communicated
    bool communicated = false;
    bool dropped = false;      // not kept after forward
    unsigned used_in = 0;      // bits of the parts that use it
    unsigned produced_in = 0;  // bits of the parts that write it before they read it
    TensorId beside;           // of keep(): the tensor that the above four are taken from
    TensorId whole;            // of a part: its tensor, which has all of the above but `elements`
    int index = 0;             // of a part: which of them
    std::vector<TensorId> parts = {};  // of a tensor that is divided
  };
  struct Emitted {
    Part part;
    KernelKind kind;
    Call call;         // a communication has one tensor on each side
    std::string axis;  // of a communication; empty for a kernel
    OpKind collective = OpKind::AllReduce;
    std::int64_t rows = 0, width = 0;  // where rows are counted; the counts are inputs, too
    ForwardPart forward_part = ForwardPart::Rest;
    int products = 1;  // of torchtitan's, that it stands for
  };
  /// The tensor that is placed: the whole of a part, or the tensor itself.
  TensorId whole_of(TensorId tensor) const {
    return tensors_[tensor].whole.valid() ? tensors_[tensor].whole : tensor;
  }
  void touch(Part part, TensorId tensor, bool write);
  void fill_missing(KernelKind kind, Call& call);
  /// Whether a result of forward is not kept, if it is made there.
  bool drops(const Emitted& emitted, const Recompute& what) const;
  void keep_for_recomputation();

  std::string layer_name_;
  DType dtype_, gradient_dtype_;
  bool split_ = false;
  ForwardParts to_end_;  // those that are computed again whether needed or not
  ForwardPart forward_part_ = ForwardPart::Rest;
  int products_ = 1;
  IndexVector<TensorId, TensorInfo> tensors_;
  std::vector<Emitted> emitted_;
  std::vector<TensorId> padding_;
};

}  // namespace lockstep
