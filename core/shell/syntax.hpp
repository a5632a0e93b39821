// Syntax of a shell script: commands as a tree, words as they stand in the text. Internal to
// core/shell.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep::shell {

/// How deep commands, quotes and expansions may lie in each other.
inline constexpr int kDeepest = 48;

struct RawWord {
  std::string text;  // with its quotes and dollars
  int line = 0;
};

struct Assignment {
  std::string name, index;      // index: of NAME[index]=value
  bool appends = false;         // +=
  bool is_array = false;        // NAME=(...)
  RawWord value;                // unless is_array
  std::vector<RawWord> values;  // of an array
};

struct Node;
struct CaseItem {
  std::vector<RawWord> patterns;
  std::vector<Node> body;  // one List
};

struct Node {
  enum class Kind {
    Simple,      // assignments and words
    List,        // children, one after another
    And,         // two children
    Or,          // two children
    Not,         // one child
    Pipeline,    // children
    If,          // condition, body, condition, body, ..., body of else
    For,         // name, words, one child
    While,       // condition, body
    Case,        // one word, cases
    Group,       // one child
    Subshell,    // one child
    Function,    // name, one child
    Test,        // words between [[ and ]]
    Arithmetic,  // name is the text between (( and ))
  };
  Kind kind = Kind::List;
  int line = 0;
  bool negated = false;  // of While: until
  std::string name{};
  std::string text{};  // as the script has it; of conditions
  std::vector<Assignment> assignments{};
  std::vector<RawWord> words{};
  std::vector<Node> children{};
  std::vector<CaseItem> cases{};
  bool has_input = false;      // by << or <<<
  bool input_expands = false;  // whether dollars in it mean something
  std::string input{};
};

/// The script as a List. Error Parse, with line and column, what is open or what stands where
/// nothing can.
Result<Node> parse(std::string_view text, const std::string& file);

bool is_name_start(char c);
bool is_name_char(char c);
bool is_blank(char c);
/// The end of what begins at `at`: a quoted text, an expansion, a character with the backslash
/// before it, or one character. npos if it is nested too deep; the end of the text if it is open.
std::size_t end_of_unit(std::string_view text, std::size_t at, bool in_double = false,
                        int depth = 0);
/// The end of an expansion that is closed by `close`, which is not part of it.
std::size_t end_of_nested(std::string_view text, std::size_t at, char open, char close,
                          int depth = 0);

}  // namespace lockstep::shell
