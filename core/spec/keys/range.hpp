// Ranges: which numbers a key may have, as an interval is written.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <limits>
#include <string>
#include <string_view>

namespace lockstep {

/// One or two alternatives, such as "> 0", ">= 1", "[0, 1)", "-1 or >= 1", "4 or 8". The text is
/// read when the program is compiled, which fails if it is none of these. Default: any number.
class Range {
 public:
  constexpr Range() = default;
  consteval Range(const char* text) : text_(text) {  // NOLINT(google-explicit-constructor)
    std::string_view rest = text_;
    constexpr std::string_view kOr = " or ";
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find(kOr), rest.size());
      parts_.at(count_++) = interval(rest.substr(0, end));
      rest.remove_prefix(std::min(end + kOr.size(), rest.size()));
    }
  }

  /// NaN is in no range but the default.
  constexpr bool has(double value) const {
    for (std::size_t i = 0; i < count_; ++i) {
      const Interval& p = parts_[i];
      if ((p.open_low ? value > p.low : value >= p.low) &&
          (p.open_high ? value < p.high : value <= p.high)) {
        return true;
      }
    }
    return count_ == 0;
  }
  constexpr std::string_view text() const { return text_; }
  /// "must be at least 1", as a sentence goes on behind the name of a key.
  std::string rule() const;

 private:
  struct Interval {
    double low = -std::numeric_limits<double>::infinity();
    double high = std::numeric_limits<double>::infinity();
    bool open_low = false, open_high = false;
  };

  static consteval double number(std::string_view text) {
    double value = 0, scale = 1;
    bool fraction = false;
    const bool negative = text.starts_with('-');
    for (const char c : text.substr(negative ? 1 : 0)) {
      if (c == '.' && !fraction) {
        fraction = true;
      } else if (c >= '0' && c <= '9') {
        value = 10 * value + (c - '0');
        if (fraction) scale *= 10;
      } else {
        throw "a range has whole or decimal numbers";
      }
    }
    return (negative ? -value : value) / scale;
  }
  static consteval Interval interval(std::string_view text) {
    Interval part;
    if (text.starts_with("> ") || text.starts_with(">= ")) {
      part.open_low = text[1] == ' ';
      part.low = number(text.substr(part.open_low ? 2 : 3));
    } else if (text.starts_with('[') || text.starts_with('(')) {
      const std::size_t comma = text.find(", ");
      part.open_low = text.front() == '(';
      part.open_high = text.back() == ')';
      part.low = number(text.substr(1, comma - 1));
      part.high = number(text.substr(comma + 2, text.size() - comma - 3));
    } else {
      part.low = part.high = number(text);
    }
    return part;
  }

  std::string_view text_;
  std::array<Interval, 2> parts_{};
  std::size_t count_ = 0;
};

}  // namespace lockstep
