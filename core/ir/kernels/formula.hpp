// Formula: a size or a count of a kernel as text over its dimensions, as rows of kernels state it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

struct Kernel;

/// Grammar, in the dimensions that the row names:
///
///   sum     = product { "+" product }
///   product = factor factor …            factors beside each other are multiplied
///   factor  = number | dimension | "(" sum ")"
///           | dimension "/" dimension    the quotient, rounded up; the divisor counts as 1 at
///           least | "min(" sum "," sum ")" | "!" factor                 1 if the factor is 0, else
///           0 | "[" operand "]"            1 if the operand is present, else 0 | "accumulate" 1 if
///           the kernel accumulates, else 0
///
/// "batch seq (heads + 2 kv_heads) head_dim", for example. An empty text is no formula.
class Formula {
 public:
  Formula() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): rows are tables of text.
  Formula(const char* text) : text_(text) {}

  /// Resolves names. Requires that the text keeps to the grammar and every name is one of these:
  /// throws std::logic_error with the text otherwise, because rows are part of this program.
  void compile(std::span<const std::string_view> dims, std::span<const std::string_view> inputs,
               std::span<const std::string_view> outputs);

  explicit operator bool() const { return !text_.empty(); }
  std::string_view text() const { return text_; }

  /// Requires a compiled formula. Saturates: dimensions come from program text too, where they may
  /// be anything.
  std::int64_t elements(const Kernel& kernel) const;
  /// The same in floating point, for counts of flops, which may be larger.
  double value(const Kernel& kernel) const;

 private:
  friend class FormulaParser;
  enum class Code : std::uint8_t {
    Number,
    Dimension,
    Input,
    Output,
    Accumulate,
    Quotient,
    Not,
    Min,
    Plus,
    Times,
  };
  /// In postfix order. a: the number, or the index of the dimension or operand; b: of the divisor.
  struct Step {
    Code code;
    std::int32_t a = 0, b = 0;
  };
  template <class Number>
  Number evaluate(const Kernel& kernel) const;

  std::string_view text_;
  std::vector<Step> steps_;
};

}  // namespace lockstep
