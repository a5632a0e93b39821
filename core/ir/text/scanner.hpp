// Scanner: the tokens of the program text, and its errors with line and column.
#pragma once

#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/text/names.hpp"

namespace lockstep::text {

/// Reads tokens from left to right and skips blanks before them. A function that returns bool has,
/// unless said otherwise, recorded an error when it returns false. Only the first error is kept.
class Scanner {
 public:
  Scanner(std::string_view text, std::string_view file)
      : file_(file), begin_(text.data()), at_(begin_), end_(begin_ + text.size()) {}

  const char* mark() {
    blanks();
    return at_;
  }

  /// Goes to the first token of the next line that has one; false at the end of the text.
  bool next_line();
  /// Whether the line ends here, or a comment begins.
  bool line_ends();
  bool expect_line_end();

  /// Takes `c` if it comes next, without an error otherwise.
  bool take(char c) {
    if (mark() == end_ || *at_ != c) return false;
    ++at_;
    return true;
  }
  bool take(std::string_view s);
  bool expect(char c);

  /// A word of name characters; empty if there is none.
  std::string_view word();
  /// Takes the word `expected` if it comes next, without an error otherwise.
  bool take_word(std::string_view expected);
  bool expect_word(std::string_view expected);
  /// Reads a name as print() writes it, plain or in quotes.
  bool name(std::string& out);

  template <class T>
  bool number(T& out) {
    const char* start = mark();
    const auto [end, error] = std::from_chars(at_, end_, out);
    if (error == std::errc::result_out_of_range) {
      at_ = end;
      return fail(start, "the number " + shown({start, end}) + " is out of range");
    }
    if (error != std::errc{}) return fail(start, "expected a number, found " + next_text());
    at_ = end;
    return check_finite(start, out);
  }

  /// Reads a reference to a row of `table`, which is a name, or '@' and an index.
  bool reference(const NameTable& table, std::string_view what, int& out);
  /// Finds the position of `word`, which was read at `start`, in a fixed list of names.
  bool choose(const char* start, std::string_view word, const std::vector<std::string>& names,
              std::string_view what, int& out);

  /// Records an error at `at`; returns false.
  bool fail(const char* at, std::string message);
  Error error() const { return *error_; }
  bool failed() const { return error_.has_value(); }

  /// The text at the current position, in quotes, for messages.
  std::string next_text() const;
  static std::string shown(std::string_view text);
  static std::string suggestion(std::string_view name, const std::vector<std::string>& names);

 private:
  void blanks() {
    while (at_ != end_ && (*at_ == ' ' || *at_ == '\t' || *at_ == '\r')) ++at_;
  }
  template <class T>
  bool check_finite(const char* start, T value) {
    if (value - value == T{}) return true;  // false for infinities and NaN
    return fail(start, "the number must be finite");
  }

  std::string file_;
  const char* begin_;
  const char* at_;
  const char* end_;
  std::string scratch_;
  std::optional<Error> error_;
};

}  // namespace lockstep::text
