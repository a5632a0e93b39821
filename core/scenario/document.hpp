// Document: TOML text as a tree of values that know their line and column. Only document.cpp
// includes toml++, which is slow to compile; everything else in core/scenario reads this tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

/// Where a value was written: a place in a file, or an override, which has as its file the name of
/// what gave it ("--set"), line 0, and the text of the override.
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
  std::string text;            // String; for an override, the raw text of a value of any kind
  bool inline_table = false;   // written { … }, as opposed to a [header] or a dotted key
  std::vector<Node> children;  // Array: elements; Table: values in the order written
  std::string key;             // the key of a value in a table
  Location at;                 // where the value is
  Location key_at;             // where the key is

  const Node* find(std::string_view name) const;
  Node* find(std::string_view name);
  bool is_table() const { return kind == Kind::Table; }
  bool is_number() const { return kind == Kind::Integer || kind == Kind::Float; }
};

/// The kind as messages say it: "an integer", "a table", ….
std::string_view describe_kind(Node::Kind kind);

/// The value as TOML text, for the labels of sweep points.
std::string to_text(const Node& node);

/// A parsed document takes some 300 times its length in memory.
inline constexpr std::size_t kLongestDocument = std::size_t{1} << 20;

/// Parses a TOML file. toml++ stops at the first syntax error; the Error has its place and
/// description.
Result<Node> parse_document(std::string_view text, const std::string& file);

/// Parses "section.key=value" as a document of one value. A value that is not TOML is a bare
/// string. Messages name `given_by`, the option or argument that gave it.
Result<Node> parse_override(const std::string& text, const std::string& given_by);

/// Puts every value of `from` into `into`; tables merge, other values replace.
void merge(Node& into, const Node& from);

/// Sets the value at a dotted `path`, creating tables; false if the path runs through a non-table.
bool set_value(Node& root, std::string_view path, const Node& value);

/// `text` as a TOML basic string, with quotes and escapes.
std::string quote(std::string_view text);

/// The shortest decimal that reads back as the same double; always written as a TOML float.
std::string format_number(double value);

}  // namespace lockstep
