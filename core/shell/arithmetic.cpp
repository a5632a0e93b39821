// Arithmetic of $(( )), with whole numbers of 64 bits, as bash(1) has it.
#include <cctype>
#include <charconv>
#include <limits>

#include "core/shell/evaluator.hpp"

namespace lockstep::shell {

class ArithmeticReader {
 public:
  ArithmeticReader(Evaluator& evaluator, std::string_view text, int depth)
      : evaluator_(evaluator), text_(text), depth_(depth) {}
  std::optional<std::int64_t> read() {
    const std::int64_t value = comma();
    skip();
    if (failed_ || at_ != text_.size()) return std::nullopt;
    return value;
  }
  std::vector<int> causes;

 private:
  using U = std::uint64_t;
  struct Operator {
    std::string_view sign;
    int rank;
  };
  static constexpr Operator kOperators[] = {{"||", 1}, {"&&", 2}, {"<<", 8}, {">>", 8},  {"==", 6},
                                            {"!=", 6}, {"<=", 7}, {">=", 7}, {"**", 11}, {"|", 3},
                                            {"^", 4},  {"&", 5},  {"<", 7},  {">", 7},   {"+", 9},
                                            {"-", 9},  {"*", 10}, {"/", 10}, {"%", 10}};

  void skip() {
    while (at_ < text_.size() && (is_blank(text_[at_]) || text_[at_] == '\n')) ++at_;
  }
  bool takes(std::string_view sign) {
    skip();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  std::int64_t comma() {
    std::int64_t value = choice();
    while (!failed_ && takes(",")) value = choice();
    return value;
  }
  std::int64_t choice() {
    if (++depth_ > kDeepest || !evaluator_.spend(1)) failed_ = true;
    if (failed_) return 0;
    std::int64_t value = binary(1);
    if (takes("?")) {
      const std::int64_t yes = choice();
      if (!takes(":")) failed_ = true;
      const std::int64_t no = choice();
      value = value != 0 ? yes : no;
    }
    --depth_;
    return value;
  }
  const Operator* next_operator() {
    skip();
    for (const Operator& o : kOperators) {
      if (!text_.substr(at_).starts_with(o.sign)) continue;
      // Not an assignment such as "+=".
      const std::string_view behind = text_.substr(at_ + o.sign.size());
      if (behind.starts_with("=") && o.rank != 6 && o.rank != 7) return nullptr;
      return &o;
    }
    return nullptr;
  }
  std::int64_t binary(int least) {
    if (++depth_ > 4 * kDeepest) failed_ = true;
    if (failed_) return 0;
    std::int64_t left = unary();
    for (const Operator* o = next_operator(); !failed_ && o != nullptr && o->rank >= least;
         o = next_operator()) {
      at_ += o->sign.size();
      const std::int64_t right = binary(o->rank + (o->sign == "**" ? 0 : 1));
      left = apply(o->sign, left, right);
    }
    --depth_;
    return left;
  }
  std::int64_t apply(std::string_view sign, std::int64_t a, std::int64_t b) {
    const auto wrapped = [](U value) { return static_cast<std::int64_t>(value); };
    const U x = static_cast<U>(a), y = static_cast<U>(b);
    if (sign == "+") return wrapped(x + y);
    if (sign == "-") return wrapped(x - y);
    if (sign == "*") return wrapped(x * y);
    if (sign == "/" || sign == "%") {
      if (b == 0 || (b == -1 && a == std::numeric_limits<std::int64_t>::min())) {
        failed_ = true;
        return 0;
      }
      return sign == "/" ? a / b : a % b;
    }
    if (sign == "**") {
      if (b < 0) failed_ = true;
      U power = 1, base = x;
      for (U n = failed_ ? 0 : y; n > 0; n >>= 1, base *= base) {
        if ((n & 1) != 0) power *= base;
      }
      return wrapped(power);
    }
    if (sign == "<<") return wrapped(x << (y & 63));
    if (sign == ">>") return a >> (y & 63);
    if (sign == "<") return a < b ? 1 : 0;
    if (sign == ">") return a > b ? 1 : 0;
    if (sign == "<=") return a <= b ? 1 : 0;
    if (sign == ">=") return a >= b ? 1 : 0;
    if (sign == "==") return a == b ? 1 : 0;
    if (sign == "!=") return a != b ? 1 : 0;
    if (sign == "&") return wrapped(x & y);
    if (sign == "|") return wrapped(x | y);
    if (sign == "^") return wrapped(x ^ y);
    return (sign == "&&" ? a != 0 && b != 0 : a != 0 || b != 0) ? 1 : 0;
  }
  std::int64_t unary() {
    skip();
    if (++depth_ > 8 * kDeepest) failed_ = true;
    if (failed_ || at_ >= text_.size()) {
      failed_ = true;
      return 0;
    }
    std::int64_t value = 0;
    if (takes("++") || takes("--")) {
      value = stepped(text_[at_ - 1] == '+' ? 1 : -1, true);
    } else if (takes("!")) {
      value = unary() == 0 ? 1 : 0;
    } else if (takes("~")) {
      value = ~unary();
    } else if (takes("-")) {
      value = static_cast<std::int64_t>(U{0} - static_cast<U>(unary()));
    } else if (takes("+")) {
      value = unary();
    } else if (takes("(")) {
      value = comma();
      if (!takes(")")) failed_ = true;
    } else {
      value = operand();
    }
    --depth_;
    return value;
  }
  std::string name() {
    skip();
    std::size_t end = at_;
    if (end < text_.size() && text_[end] == '$') ++at_, ++end;
    while (end < text_.size() && is_name_char(text_[end])) ++end;
    std::string found(text_.substr(at_, end - at_));
    at_ = end;
    if (found.empty() || !is_name_start(found.front())) failed_ = true;
    return found;
  }
  std::int64_t stepped(std::int64_t by, bool before) {
    const std::string variable = name();
    const std::int64_t value = value_of(variable);
    const std::int64_t next = apply("+", value, by);
    if (!failed_) evaluator_.set(variable, {{std::to_string(next)}});
    return before ? next : value;
  }
  std::int64_t value_of(const std::string& variable) {
    if (failed_) return 0;
    const std::optional<std::string> value = evaluator_.value_of(variable);
    if (!value) {
      const std::vector<int> holes = holes_of(evaluator_.unset(variable));
      causes.insert(causes.end(), holes.begin(), holes.end());
      failed_ = true;
      return 0;
    }
    return number(*value);
  }
  std::int64_t number(const std::string& text) {
    if (has_hole(text)) {
      const std::vector<int> holes = holes_of(text);
      causes.insert(causes.end(), holes.begin(), holes.end());
      failed_ = true;
      return 0;
    }
    if (text.empty()) return 0;
    if (depth_ > kDeepest) {
      failed_ = true;
      return 0;
    }
    ArithmeticReader inner(evaluator_, text, depth_ + 1);
    const std::optional<std::int64_t> value = inner.read();
    failed_ |= !value;
    causes.insert(causes.end(), inner.causes.begin(), inner.causes.end());
    return value.value_or(0);
  }
  std::int64_t operand() {
    if (text_[at_] == kHoleBegin) {
      const std::size_t end = std::min(text_.size(), text_.find(kHoleEnd, at_));
      number(std::string(text_.substr(at_, end + 1 - at_)));
      return 0;
    }
    if (std::isdigit(static_cast<unsigned char>(text_[at_])) != 0) return literal();
    const std::string variable = name();
    if (failed_) return 0;
    skip();
    if (takes("++") || takes("--")) {
      const std::int64_t by = text_[at_ - 1] == '+' ? 1 : -1;
      const std::int64_t value = value_of(variable);
      if (!failed_) evaluator_.set(variable, {{std::to_string(apply("+", value, by))}});
      return value;
    }
    for (const std::string_view sign : {"=", "+=", "-=", "*=", "/=", "%="}) {
      const std::string_view rest = text_.substr(at_);
      if (!rest.starts_with(sign) || rest.starts_with("==")) continue;
      at_ += sign.size();
      const std::int64_t right = choice();
      const std::int64_t value =
          sign == "=" ? right : apply(sign.substr(0, 1), value_of(variable), right);
      if (!failed_) evaluator_.set(variable, {{std::to_string(value)}});
      return value;
    }
    return value_of(variable);
  }
  std::int64_t literal() {
    std::size_t end = at_;
    while (end < text_.size() && (is_name_char(text_[end]) || text_[end] == '#')) ++end;
    std::string_view digits = text_.substr(at_, end - at_);
    at_ = end;
    int base = 10;
    if (digits.starts_with("0x") || digits.starts_with("0X")) {
      base = 16;
      digits.remove_prefix(2);
    } else if (digits.size() > 1 && digits.front() == '0') {
      base = 8;
    }
    std::uint64_t value = 0;
    const auto [stop, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), value, base);
    if (error != std::errc{} || stop != digits.data() + digits.size()) failed_ = true;
    return static_cast<std::int64_t>(value);
  }

  Evaluator& evaluator_;
  std::string_view text_;
  std::size_t at_ = 0;
  int depth_ = 0;
  bool failed_ = false;
};

std::optional<std::int64_t> Evaluator::computed(std::string_view expression, int line, int depth,
                                                std::vector<int>& causes) {
  const std::string expanded = text(expression, line, depth + 1, true);
  if (expanded.find_first_not_of(" \t\n") == std::string::npos) return 0;
  ArithmeticReader reader(*this, expanded, depth);
  const std::optional<std::int64_t> value = reader.read();
  causes.insert(causes.end(), reader.causes.begin(), reader.causes.end());
  return value;
}

std::string Evaluator::arithmetic(std::string_view expression, int line, int depth) {
  std::vector<int> causes;
  const std::optional<std::int64_t> value = computed(expression, line, depth, causes);
  if (value) return std::to_string(*value);
  const int made = hole(Hole::Kind::Other, "$((" + std::string(expression) + "))", line);
  script_.holes[static_cast<std::size_t>(made)].causes = causes;
  return marked(made);
}

}  // namespace lockstep::shell
