// Document: TOML text as a tree of values that know their line and column. The only folder-internal
// door to toml++, which is slow to compile: everything else in core/scenario reads this tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

/// Where a value was written: a place in a file, or an override of the command line (file "--set",
/// line 0, and the override's text).
struct Location {
  SourceSpan span;
  std::string override_text;
  bool from_override() const { return !override_text.empty(); }
};

struct Node {
  enum class Kind { Boolean, Integer, Float, String, Array, Table, Date };
  Kind kind = Kind::Table;
  bool boolean = false;
  std::int64_t integer = 0;
  double number = 0;           // Integer and Float
  std::string text;            // String; for an override also the raw text of any value
  bool inline_table = false;   // written { … }, as opposed to a [header] or a dotted key
  std::vector<Node> children;  // Array: elements; Table: values in the order written
  std::string key;             // in a table
  Location at;                 // of the value
  Location key_at;             // of the key

  const Node* find(std::string_view name) const;
  Node* find(std::string_view name);
  bool is_table() const { return kind == Kind::Table; }
  bool is_number() const { return kind == Kind::Integer || kind == Kind::Float; }
};

/// "an integer", "a table", …: for messages.
std::string_view describe_kind(Node::Kind kind);

/// The value as TOML text (labels of sweep points).
std::string to_text(const Node& node);

/// toml++ stops at the first syntax error; its place and description are the Error.
Result<Node> parse_document(std::string_view text, const std::string& file);

/// "section.key=value" as a document of one value. A value that is no TOML is a bare string.
Result<Node> parse_override(const std::string& text);

/// Puts every value of `from` into `into`; tables merge, other values replace.
void merge(Node& into, const Node& from);

/// Sets the value at a dotted `path`, creating tables; false if the path runs through a non-table.
bool set_value(Node& root, std::string_view path, const Node& value);

/// TOML basic string with quotes and escapes.
std::string quote(std::string_view text);

/// Shortest decimal that reads back as the same double, always a TOML float.
std::string format_number(double value);

}  // namespace lockstep
