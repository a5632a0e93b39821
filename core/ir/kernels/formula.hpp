// Formula: a size or a count of a kernel, as a text over its dimensions, in which rows of kernels
// state it.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace lockstep {

struct Kernel;

/// The grammar, in the dimensions that the row names:
///
///   sum     = product { "+" product }
///   product = factor { factor }           factors beside each other are multiplied
///   factor  = number | dimension | "(" sum ")"
///           | dimension "/" dimension     the quotient, rounded up; a divisor 0 counts as 1
///           | "min(" sum "," sum ")"
///           | "!" factor                  1 if the factor is 0, else 0
///           | "[" operand "]"             1 if the operand is present, else 0
///           | "accumulate"                1 if the kernel accumulates, else 0
///
/// An example is "batch seq (heads + 2 kv_heads) head_dim". An empty text is no formula.
class Formula {
 public:
  Formula() = default;
  // NOLINTNEXTLINE(google-explicit-constructor): rows are tables of text.
  Formula(const char* text) : text_(text) {}

  /// Resolves names. Requires that the text follows the grammar and every name is one of the
  /// arguments'; throws std::logic_error with the text otherwise, because rows are part of this
  /// program.
  void compile(std::span<const std::string_view> dims, std::span<const std::string_view> inputs,
               std::span<const std::string_view> outputs);

  explicit operator bool() const { return !text_.empty(); }
  std::string_view text() const { return text_; }

  /// The value as a number of elements. Requires a compiled formula. It saturates, because
  /// dimensions also come from program texts, where they may be anything.
  std::int64_t elements(const Kernel& kernel) const;
  /// The value in floating point, for counts of flops, which may be larger.
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
  /// A step of the formula in postfix order. `a` is the number, or the index of the dimension or
  /// operand; `b` is the index of the divisor.
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
