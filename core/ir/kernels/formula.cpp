#include "core/ir/kernels/formula.hpp"

#include <algorithm>
#include <array>
#include <stdexcept>
#include <string>

#include "core/base/index_vector.hpp"
#include "core/ir/kernels/kernel.hpp"
#include "core/ir/kernels/saturating.hpp"

namespace lockstep {
namespace {

constexpr std::size_t kMaxDepth = 16;  // how many values may wait for an operator

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_name(char c) { return (c >= 'a' && c <= 'z') || c == '_' || is_digit(c); }

std::int64_t sum_of(std::int64_t a, std::int64_t b) { return saturating::plus(a, b); }
double sum_of(double a, double b) { return a + b; }
std::int64_t product_of(std::int64_t a, std::int64_t b) { return saturating::times(a, b); }
double product_of(double a, double b) { return a * b; }

std::int64_t rounded_up(std::int64_t a, std::int64_t b) {
  return a / std::max<std::int64_t>(b, 1) + (b > 1 && a % b != 0 ? 1 : 0);
}

bool present(const std::vector<Operand>& operands, std::int32_t i) {
  const std::size_t at = to_size(i);
  return at < operands.size() && operands[at].present();
}

}  // namespace

class FormulaParser {
 public:
  FormulaParser(std::string_view text, std::span<const std::string_view> dims,
                std::span<const std::string_view> inputs, std::span<const std::string_view> outputs)
      : text_(text), dims_(dims), inputs_(inputs), outputs_(outputs) {}

  std::vector<Formula::Step> run() {
    sum();
    if (at_ != text_.size()) fail("what follows is no part of it");
    return std::move(steps_);
  }

 private:
  using Code = Formula::Code;

  void sum() {
    product();
    while (take('+')) {
      product();
      add({Code::Plus});
    }
  }
  void product() {
    factor();
    while (begins_factor()) {
      factor();
      add({Code::Times});
    }
  }
  void factor() {
    if (take('!')) {
      factor();
      return add({Code::Not});
    }
    if (take('(')) {
      sum();
      return expect(')');
    }
    if (take('[')) return operand();
    const std::string_view word = this->word();
    if (word.empty()) fail("a factor is missing");
    if (is_digit(word.front())) return add({Code::Number, std::stoi(std::string(word))});
    if (word == "accumulate") return add({Code::Accumulate});
    if (word == "min") {
      expect('(');
      sum();
      expect(',');
      sum();
      expect(')');
      return add({Code::Min});
    }
    const std::int32_t dimension = index(dims_, word);
    if (dimension < 0) fail("no such dimension");
    if (!take('/')) return add({Code::Dimension, dimension});
    const std::int32_t divisor = index(dims_, this->word());
    if (divisor < 0) fail("no such divisor");
    add({Code::Quotient, dimension, divisor});
  }
  void operand() {
    const std::string_view name = word();
    expect(']');
    if (const std::int32_t i = index(inputs_, name); i >= 0) return add({Code::Input, i});
    const std::int32_t o = index(outputs_, name);
    if (o < 0) fail("no such operand");
    add({Code::Output, o});
  }

  void add(Formula::Step step) {
    const bool joins =
        step.code == Code::Plus || step.code == Code::Times || step.code == Code::Min;
    if (joins) {
      --depth_;
    } else if (step.code != Code::Not && ++depth_ > kMaxDepth) {
      fail("too deep");
    }
    steps_.push_back(step);
  }

  static std::int32_t index(std::span<const std::string_view> names, std::string_view name) {
    const auto at = std::find(names.begin(), names.end(), name);
    return at == names.end() ? -1 : static_cast<std::int32_t>(at - names.begin());
  }
  void skip_blanks() {
    while (at_ < text_.size() && text_[at_] == ' ') ++at_;
  }
  bool begins_factor() {
    skip_blanks();
    if (at_ == text_.size()) return false;
    const char c = text_[at_];
    return is_name(c) || c == '(' || c == '!' || c == '[';
  }
  bool take(char c) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c) {
    if (!take(c)) fail(std::string("expected ") + c);
  }
  std::string_view word() {
    skip_blanks();
    const std::size_t begin = at_;
    while (at_ < text_.size() && is_name(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  [[noreturn]] void fail(const std::string& why) const {
    throw std::logic_error("formula \"" + std::string(text_) + "\", column " +
                           std::to_string(at_ + 1) + ": " + why);
  }

  std::string_view text_;
  std::span<const std::string_view> dims_, inputs_, outputs_;
  std::size_t at_ = 0, depth_ = 0;
  std::vector<Formula::Step> steps_;
};

void Formula::compile(std::span<const std::string_view> dims,
                      std::span<const std::string_view> inputs,
                      std::span<const std::string_view> outputs) {
  if (*this) steps_ = FormulaParser(text_, dims, inputs, outputs).run();
}

template <class Number>
Number Formula::evaluate(const Kernel& kernel) const {
  std::array<Number, kMaxDepth> values;
  std::size_t count = 0;
  const auto dim = [&](std::int32_t i) { return kernel.dims[to_size(i)]; };
  const auto push = [&](auto value) { values[count++] = static_cast<Number>(value); };
  const auto join = [&](auto operation) {
    --count;
    values[count - 1] = operation(values[count - 1], values[count]);
  };
  for (const Step& step : steps_) {
    switch (step.code) {
      case Code::Number:
        push(step.a);
        break;
      case Code::Dimension:
        push(dim(step.a));
        break;
      case Code::Input:
        push(present(kernel.in, step.a) ? 1 : 0);
        break;
      case Code::Output:
        push(present(kernel.out, step.a) ? 1 : 0);
        break;
      case Code::Accumulate:
        push(kernel.accumulate ? 1 : 0);
        break;
      case Code::Quotient:
        push(rounded_up(dim(step.a), dim(step.b)));
        break;
      case Code::Not:
        values[count - 1] = static_cast<Number>(values[count - 1] == Number{} ? 1 : 0);
        break;
      case Code::Min:
        join([](Number a, Number b) { return std::min(a, b); });
        break;
      case Code::Plus:
        join([](Number a, Number b) { return sum_of(a, b); });
        break;
      case Code::Times:
        join([](Number a, Number b) { return product_of(a, b); });
        break;
    }
  }
  return values[0];
}

std::int64_t Formula::elements(const Kernel& kernel) const {
  return evaluate<std::int64_t>(kernel);
}
double Formula::value(const Kernel& kernel) const { return evaluate<double>(kernel); }

}  // namespace lockstep
