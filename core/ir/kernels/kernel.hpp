// Kernel: one arithmetic operation with all its dimensions, over the formal buffers of a function.
// The set is closed. What a kernel is stands in one place, its row: in the file of its family
// (dense.cpp, attention.cpp, norm.cpp, …) beside its definition.
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
  ColumnSum,
  AttentionForward,
  AttentionBackward,
  LayerNormForward,
  LayerNormBackwardInput,
  LayerNormBackwardWeight,
  RmsNormForward,
  RmsNormBackwardInput,
  RmsNormBackwardWeight,
  GeluForward,
  GeluBackward,
  SwigluForward,
  SwigluBackward,
  Rope,
  EmbeddingForward,
  EmbeddingBackward,
  CrossEntropy,
  CrossEntropyStats,
  CrossEntropyParallel,
  Add,
  Regroup,
  Fill,
  Sum,
  NormSquared,
  ClipCoefficient,
  AdamW,
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
  RouteForward,
  RouteBackward,
  RouteLoad,
  RouteBalance,
  CombineForward,
  CombineBackward,
  Delay,
};
inline constexpr int kNumKernelKinds = static_cast<int>(KernelKind::Delay) + 1;

/// A tensor: a byte range inside a formal buffer of the function. formal -1: operand absent.
struct Operand {
  std::int16_t formal = -1;
  DType dtype = DType::F32;
  std::int64_t offset = 0;  // bytes from the start of the actual buffer
  bool present() const { return formal >= 0; }
  bool operator==(const Operand&) const = default;
};

inline constexpr int kMaxDims = 8;
inline constexpr int kMaxOperands = 8;

/// All tensors are dense row-major.
struct Kernel {
  KernelKind kind = KernelKind::Delay;
  bool accumulate = false;  // add to outputs of Effect::Accumulate instead of overwriting them
  bool stochastic = false;  // adamw in bfloat16: w is rounded at random (core/base/random_rounding)
  DType dtype = DType::F32;  // arithmetic type of the main operands
  std::array<std::int64_t, kMaxDims> dims{};
  std::array<double, 4> scalars{};
  std::vector<Operand> in;  // in the order of the row; absent optional operands have formal -1
  std::vector<Operand> out;
  bool operator==(const Kernel&) const = default;
};

// ---------------------------------------------------------------- rows

/// Which element types an operand may have, beside the kernel's.
enum class OperandType : std::uint8_t {
  Own,    // the kernel's own
  Sums,   // sum_type of the kernel's own: statistics, which bfloat16 would spoil
  Mixed,  // the kernel's own, or another real type with the same sum_type
  Real,   // float32 or float64, whatever the kernel's: a sum over many, a factor
  Index,  // int32
};
/// Whether an operand of this type may stand in a kernel of type `own`.
bool fits(OperandType type, DType own, DType operand);
/// The type that such an operand has unless something else is said: own, its sum_type, or int32.
DType usual_dtype(OperandType type, DType own);

/// What a kernel does to an output.
enum class Effect : std::uint8_t {
  Write,       // overwrites it
  Accumulate,  // overwrites it, or adds to it where Kernel::accumulate is set
  Update,      // computes the new values from the old ones, or keeps a part of these
};

struct OperandRow {
  std::string_view name;  // a row spells it "[x]" where the operand may be absent
  Formula extent;         // elements, as stored
  OperandType type = OperandType::Own;
  Effect effect = Effect::Write;  // of outputs
  Formula moved = {};  // elements read plus elements written; empty: the extent, twice if an output
                       // is read as well. Where it is less than the extent, the others stay.
  Formula given_if = {};    // if not empty: present exactly where this is not 0
  Formula updates_if = {};  // if not empty: Effect::Update only where this is not 0
  bool optional = false;    // from the spelling of the name
};

/// All that is known of a kernel; its definition stands beside its row, in the file of its family.
struct KernelRow {
  KernelKind kind = KernelKind::Delay;
  std::string_view name;                       // as in the program text and in traces
  std::vector<std::string_view> dims = {};     // names of the dims in use
  std::vector<std::string_view> scalars = {};  // names of the scalars in use
  std::vector<OperandRow> in = {}, out = {};
  Formula flops = "0";
  std::string_view efficiency_as = {};  // whose efficiency curve it uses if it has none of its own
  bool may_be_stochastic = false;       // Kernel::stochastic means something
  /// What is wrong with a kernel beyond missing operands and extents; empty: nothing.
  std::string_view (*fault)(const Kernel& kernel) = nullptr;
};
const KernelRow& info(KernelKind kind);

/// Whether every operand has a type that its row allows.
bool types_fit(const Kernel& kernel);

/// Elements of operand `in[i]` / `out[i]`; 0 if absent.
std::int64_t input_elements(const Kernel& kernel, std::size_t i);
std::int64_t output_elements(const Kernel& kernel, std::size_t i);

/// True for kernels with an output that they update in place, whether they accumulate or not.
bool updates_in_place(const Kernel& kernel);

/// True if the kernel reads out[i] before it writes it (accumulation, in-place update).
bool output_is_read(const Kernel& kernel, std::size_t i);

/// True if some elements of out[i] are neither read nor written: they stay as they are.
bool keeps_elements(const Kernel& kernel, std::size_t i);

struct Work {
  Flops flops;
  Bytes bytes;                            // read + written, each operand once
  friend Work operator+(Work a, Work b);  // bytes saturate, as in work()
  bool operator==(const Work&) const = default;
};
/// Source of the formulas: one multiply-add is two flops; causal attention counts the lower
/// triangle with the diagonal, forward 4·D and backward 10·D flops per score and head (scores are
/// recomputed, as every implementation that never stores them must).
Work work(const Kernel& kernel);

}  // namespace lockstep
