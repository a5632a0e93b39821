#include "core/scenario/stray_text.hpp"

namespace lockstep {
namespace {

class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = line_begin_ = 3;  // byte order mark
  }

  /// Position of the stray character, or kNone.
  std::size_t find() {
    while (!end()) {
      const char c = text_[at_];
      if (is_stray(c)) return at_;
      if (std::string_view("=,{}[]\n").find(c) != std::string_view::npos) dots_ = 0;
      if (c == '.' && ++dots_ > kDeepestKey) return at_;
      if (c == '#') {
        skip_line();
      } else if (c == '"' || c == '\'') {
        const bool multi_line = text_.substr(at_, 3) == std::string(3, c);
        at_ += multi_line ? 3 : 1;
        if (!(multi_line ? skip_multi_line(c) : skip_single_line(c))) return stray_;
      } else {
        step();
      }
    }
    return kNone;
  }

  int line() const { return line_; }
  int column() const {  // in code points, as toml++ counts
    int column = 1;
    for (std::size_t i = line_begin_; i < at_; ++i) column += (text_[i] & 0xC0) != 0x80;
    return column;
  }

  bool too_deep() const { return dots_ > kDeepestKey; }

  static constexpr std::size_t kNone = std::string_view::npos;

 private:
  static bool is_stray(char c) { return static_cast<unsigned char>(c) >= 0x80; }
  static bool is_space(char c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
  bool end() const { return at_ >= text_.size(); }
  void step() {
    if (text_[at_++] == '\n') {
      ++line_;
      line_begin_ = at_;
    }
  }
  void skip_line() {
    while (!end() && text_[at_] != '\n') ++at_;
  }

  /// Skips the rest of a string. Returns false if the scan is over: stray_ is set if there is a
  /// stray character; a string without an end is left for toml++ to report.
  bool skip_single_line(char quote) {
    while (!end() && text_[at_] != '\n') {
      const char c = text_[at_++];
      if (c == quote) return true;
      if (c == '\\' && quote == '"' && !end() && text_[at_] != '\n') {
        if (is_stray(text_[at_])) return false;  // toml++ reports that there is no such escape
        ++at_;
      }
    }
    return false;
  }

  bool skip_multi_line(char quote) {
    const std::string close(3, quote);
    while (!end()) {
      if (text_.substr(at_, 3) == close) {
        at_ += 3;
        for (int i = 0; i < 2 && !end() && text_[at_] == quote; ++i) ++at_;  // """"" ends with two
        return true;
      }
      const bool escape = text_[at_] == '\\' && quote == '"';
      step();
      if (!escape || end()) continue;
      if (is_space(text_[at_])) {
        while (!end() && is_space(text_[at_])) step();
      } else if (!is_stray(text_[at_])) {
        step();
        continue;
      }
      if (!end() && is_stray(text_[at_])) {
        stray_ = at_;
        return false;
      }
    }
    return false;
  }

  std::string_view text_;
  std::size_t at_ = 0, line_begin_ = 0, stray_ = kNone;
  int line_ = 1;
  int dots_ = 0;  // of a key
};

}  // namespace

std::optional<Error> find_stray_text(std::string_view text, const std::string& file) {
  Scanner scanner(text);
  if (scanner.find() == Scanner::kNone) return std::nullopt;
  const SourceSpan where{file, scanner.line(), scanner.column()};
  if (scanner.too_deep()) {
    return Error{ErrorKind::Parse,
                 "this key has more than " + std::to_string(kDeepestKey) +
                     " dots, and the deepest of a scenario has four",
                 where};
  }
  return Error{ErrorKind::Parse,
               "a character beyond ASCII can only stand in a string or a comment, and not right "
               "after a backslash",
               where};
}

}  // namespace lockstep
