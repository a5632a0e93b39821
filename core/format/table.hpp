// Table: lines as people read them, as wide as the screen is.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Where text is shown.
struct Screen {
  int width = 0;       // characters of a line; 0: any number
  bool color = false;  // headings may be emphasized, by kEmphasis
};

/// The sequences of characters by which a terminal emphasizes; no text of ours has others.
struct Emphasis {
  static constexpr std::string_view kBold = "\033[1m", kName = "\033[36m", kPlain = "\033[0m";
};
std::string emphasized(const std::string& text, std::string_view how, const Screen& screen);

/// The width of a text on the screen, in characters of UTF-8.
std::size_t text_width(std::string_view text);

/// The text in lines that the screen has room for, broken at spaces. Lines after the first begin
/// with `indent` spaces. Lines that the text has already stay apart.
std::string wrapped(const std::string& text, const Screen& screen, std::size_t indent = 0);

struct Heading {
  Heading(std::string text, int goes = 0)  // NOLINT: a text is a heading
      : text(std::move(text)), goes(goes) {}
  Heading(const char* text, int goes = 0) : text(text), goes(goes) {}  // NOLINT: likewise
  static Heading words(std::string text, int goes = 0) {               // aligned to the left
    Heading column(std::move(text), goes);
    column.left = true;
    return column;
  }
  std::string text;
  int goes = 0;  // when it is left out for want of room: 1 goes first, and all of a
                 // number together; 0: only when nothing else can
  bool left = false;
  bool brief = false;  // of words that are cut, so that a row stays a line, and not broken
};

/// A table whose columns are as wide as their widest cells and two spaces apart. The first `left`
/// columns are aligned to the left, the others to the right, unless they are words. Without any
/// heading it has no line for these.
///
/// Where the screen has no room for it, headings are broken at their spaces, then columns go in the
/// order that they name, then columns on the left are broken into lines, then columns go from the
/// right. A line below says which have gone, and that --wide shows them.
class TextTable {
 public:
  explicit TextTable(std::vector<Heading> columns, std::size_t left = 1);
  void add(std::vector<std::string> row);             // as long as the columns
  std::string text(const Screen& screen = {}) const;  // lines, no trailing spaces

 private:
  std::vector<Heading> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace lockstep
