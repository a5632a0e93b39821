// Kernel: one arithmetic operation with all its dimensions, over the formal buffers of a function.
// The set of kernels is closed. Everything about a kernel is in one place, its row, which is beside
// its definition in the file of its family (dense.cpp, attention.cpp, norm.cpp, …).
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/ir/kernels/formula.hpp"

namespace lockstep {

enum class KernelKind : std::uint8_t {
  Gemm,
  Quantize,
  ScaledGemm,
  ToCodes,
  FromCodes,
  Orthonormalize,
  Largest,
  ColumnSum,
  AttentionForward,
  AttentionBackward,
  LayerNormForward,
  LayerNormBackwardInput,
  LayerNormBackwardWeight,
  RmsNormForward,
  RmsNormBackwardInput,
  RmsNormBackwardWeight,
  HeadNormForward,
  HeadNormBackwardInput,
  HeadNormBackwardWeight,
  GeluForward,
  GeluBackward,
  SquaredReluForward,
  SquaredReluBackward,
  SoftcapForward,
  SoftcapBackward,
  SwigluForward,
  SwigluBackward,
  GegluForward,
  GegluBackward,
  Rope,
  EmbeddingForward,
  EmbeddingBackward,
  CrossEntropy,
  CrossEntropyStats,
  CrossEntropyParallel,
  Add,
  Scale,
  Regroup,
  JoinColumns,
  PartColumns,
  Dropout,
  JoinLatent,
  PartLatent,
  Fill,
  Sum,
  NormSquared,
  ClipCoefficient,
  AdamW,
  Adam,
  AdamW8bit,
  Lion,
  RouterBias,
  DelayedScale,
  Momentum,
  Normalize,
  Muon,
  ReplicaTerm,
  OuterSgd,
  FactorSums,
  FactorMoments,
  FactoredSquares,
  Adafactor,
  Sgd,
  Conv2dForward,
  Conv2dBackwardInput,
  Conv2dBackwardWeight,
  BatchNormStatistics,
  BatchNormCombine,
  BatchNormRunning,
  BatchNormForward,
  BatchNormBackwardSums,
  BatchNormBackwardInput,
  BatchNormBackwardWeight,
  ReluForward,
  ReluBackward,
  MaxPoolForward,
  MaxPoolBackward,
  AveragePoolForward,
  AveragePoolBackward,
  GroupedGemm,
  GroupedGemmWeight,
  RaggedGemm,
  RaggedGemmWeight,
  RaggedQuantize,
  RaggedScaledGemm,
  RaggedScaledGemmWeight,
  RaggedActivationForward,
  RaggedActivationBackward,
  RouteForward,
  RouteBackward,
  RouteLoad,
  RouteBalance,
  CombineForward,
  CombineBackward,
  GateForward,
  GateBackward,
  Delay,
};
inline constexpr int kNumKernelKinds = static_cast<int>(KernelKind::Delay) + 1;

/// A tensor, which is a byte range inside a formal buffer of the function. `formal` is -1 for an
/// absent operand.
struct Operand {
  std::int16_t formal = -1;
  DType dtype = DType::F32;
  std::int64_t offset = 0;  // bytes from the start of the actual buffer
  bool present() const { return formal >= 0; }
  bool operator==(const Operand&) const = default;
};

inline constexpr int kMaxDims = 8;
inline constexpr int kMaxOperands = 8;

/// One kernel of a function. All tensors are dense and row-major.
struct Kernel {
  KernelKind kind = KernelKind::Delay;
  bool accumulate = false;  // add to outputs of Effect::Accumulate instead of overwriting them
  bool stochastic = false;  // adamw in bfloat16 rounds w at random (core/base/random_rounding.hpp)
  bool tf32 = false;  // a product in float32 may round its factors to TF32, 10 bits of mantissa
  DType dtype = DType::F32;  // type of the main operands
  std::array<std::int64_t, kMaxDims> dims{};
  std::array<double, 4> scalars{};
  std::vector<Operand> in;  // in the order of the row; absent optional operands have formal -1
  std::vector<Operand> out;
  bool operator==(const Kernel&) const = default;
};

// ---------------------------------------------------------------- rows

/// Which element types an operand may have, in relation to the kernel's own.
enum class OperandType : std::uint8_t {
  Own,    // the kernel's own
  Sums,   // sum_type() of the kernel's own, for statistics, for which bfloat16 is too inexact
  Mixed,  // the kernel's own, or another real type with the same sum_type()
  Real,   // float32 or float64, whatever the kernel's, for sums over many values and for factors
  Index,  // int32
  Byte,   // uint8, of which a quantized state consists
};
/// Whether an operand of element type `operand` is allowed as `type` in a kernel of type `own`.
bool fits(OperandType type, DType own, DType operand);
/// The type that it has unless something else is said: own, its sum_type(), int32 or uint8.
DType usual_dtype(OperandType type, DType own);

/// What a kernel does to an output.
enum class Effect : std::uint8_t {
  Write,       // overwrites it
  Accumulate,  // overwrites it, or adds to it if Kernel::accumulate is set (of `largest`, keeps the
               // larger)
  Update,      // computes the new values from the old ones, or keeps a part of these
};

struct OperandRow {
  std::string_view name;  // written "[x]" in a row if the operand may be absent
  Formula extent;         // number of elements, as stored
  OperandType type = OperandType::Own;
  Effect effect = Effect::Write;  // for outputs
  /// Elements read plus elements written. Empty: the extent, or twice the extent if an output is
  /// read as well. If it is less than the extent, the other elements stay as they are.
  Formula moved = {};
  Formula given_if = {};    // if not empty, the operand is present exactly if this is not 0
  Formula updates_if = {};  // if not empty, the effect is Update only if this is not 0
  bool optional = false;    // whether the name was written in brackets
};

/// In which part of a training step a kernel may stand.
enum class KernelUse : std::uint8_t {
  Layers,      // forward and backward passes
  Update,      // between the backward passes and the next step, on a unit's flat shard
  Parameters,  // there, too: a function has one of them for each parameter of a unit, or two
};
/// Which setting lets a kernel multiply float32 in TF32.
enum class Tf32 : std::uint8_t { Never, Products, Convolutions };

struct AxisOperands;  // placement.hpp

/// Everything that is known of a kind of kernel. Its definition is a comment beside the row.
struct KernelRow {
  KernelKind kind = KernelKind::Delay;
  std::string_view name;                       // as in the program text and in traces
  std::vector<std::string_view> dims = {};     // names of the dims in use
  std::vector<std::string_view> scalars = {};  // names of the scalars in use
  std::vector<OperandRow> in = {}, out = {};
  Formula flops = "0";
  std::string_view efficiency_as = {};  // the kernel whose efficiency curve it uses without its own
  Formula width = {};  // the extent that vectors run along; small ones cost efficiency. Empty: none
  bool moves_weights = false;      // whether its first output is weights, which it updates
  bool may_be_stochastic = false;  // whether Kernel::stochastic may be set
  Tf32 tf32 = Tf32::Never;         // whether Kernel::tf32 may be set
  /// What is wrong with a kernel beyond missing operands and extents; empty if nothing is.
  std::string_view (*fault)(const Kernel& kernel) = nullptr;
  KernelUse use = KernelUse::Layers;  // as that of its family (kernel.cpp)
  /// What ranks along one axis hold of the results, for place() in placement.hpp. Null in a row
  /// that follows its family's rule; info() has that rule then.
  bool (*place)(const Kernel& kernel, AxisOperands& operands) = nullptr;
};
const KernelRow& info(KernelKind kind);

/// Whether every operand has a type that its row allows.
bool types_fit(const Kernel& kernel);

/// The number of elements of operand `in[i]` or `out[i]`; 0 if it is absent.
std::int64_t input_elements(const Kernel& kernel, std::size_t i);
std::int64_t output_elements(const Kernel& kernel, std::size_t i);

/// Whether the kernel has an output that it updates in place, accumulating or not.
bool updates_in_place(const Kernel& kernel);

/// Whether the kernel reads out[i] before it writes it, to accumulate or to update in place.
bool output_is_read(const Kernel& kernel, std::size_t i);

/// Whether some elements of out[i] are neither read nor written and stay as they are.
bool keeps_elements(const Kernel& kernel, std::size_t i);

struct Work {
  Flops flops;
  Bytes bytes;                            // read plus written, each operand counted once
  friend Work operator+(Work a, Work b);  // bytes saturate, as in work()
  bool operator==(const Work&) const = default;
};
/// The arithmetic and the memory traffic of a kernel. A multiply-add counts as two flops. Causal
/// attention counts the lower triangle with the diagonal, other attention the square: forward 4·D
/// and backward 10·D flops per score and head, because scores are computed again, as they must be
/// unless they are stored.
Work work(const Kernel& kernel);

}  // namespace lockstep
