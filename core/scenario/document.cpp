#include "core/scenario/document.hpp"

// toml++ asserts that the key of a header begins with a valid character before it checks that. Its
// assertion is switched off, so that "[.a]" becomes an error message: neither may it end the
// program, nor may the compiler assume that it cannot happen, as it does under NDEBUG.
#undef NDEBUG
#define TOML_ASSERT(expr) static_cast<void>(0)
#define TOML_MAX_NESTED_VALUES 32  // with kDeepestKey, it bounds how deep a document is
#include <toml++/toml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>
#include <tuple>

#include "core/scenario/stray_text.hpp"

namespace lockstep {
namespace {

Location place(const toml::source_region& source, const std::string& file) {
  return {{file, static_cast<int>(source.begin.line), static_cast<int>(source.begin.column)}, {}};
}

Node convert(const toml::node& from, const std::string& file) {
  Node node;
  node.at = place(from.source(), file);
  if (const auto* table = from.as_table()) {
    node.kind = Node::Kind::Table;
    node.inline_table = table->is_inline();
    for (const auto& [key, value] : *table) {
      Node child = convert(value, file);
      child.key = std::string(key.str());
      child.key_at = place(key.source(), file);
      node.children.push_back(std::move(child));
    }
    // toml++ keeps tables sorted by key; messages and sweeps follow the order written.
    std::stable_sort(node.children.begin(), node.children.end(), [](const Node& a, const Node& b) {
      return std::tie(a.key_at.span.line, a.key_at.span.column) <
             std::tie(b.key_at.span.line, b.key_at.span.column);
    });
  } else if (const auto* array = from.as_array()) {
    node.kind = Node::Kind::Array;
    for (const toml::node& element : *array) node.children.push_back(convert(element, file));
  } else if (const auto* text = from.as_string()) {
    node.kind = Node::Kind::String;
    node.text = text->get();
  } else if (const auto* integer = from.as_integer()) {
    node.kind = Node::Kind::Integer;
    node.integer = integer->get();
    node.number = static_cast<double>(node.integer);
  } else if (const auto* number = from.as_floating_point()) {
    node.kind = Node::Kind::Float;
    node.number = number->get();
  } else if (const auto* boolean = from.as_boolean()) {
    node.kind = Node::Kind::Boolean;
    node.boolean = boolean->get();
  } else {
    node.kind = Node::Kind::Date;
  }
  return node;
}

void mark_override(Node& node, const Location& at) {
  node.at = node.key_at = at;
  for (Node& child : node.children) mark_override(child, at);
}

}  // namespace

const Node* Node::find(std::string_view name) const {
  const auto it = std::find_if(children.begin(), children.end(),
                               [&](const Node& child) { return child.key == name; });
  return it == children.end() ? nullptr : &*it;
}

Node* Node::find(std::string_view name) {
  return const_cast<Node*>(std::as_const(*this).find(name));
}

std::string_view describe_kind(Node::Kind kind) {
  switch (kind) {
    case Node::Kind::Boolean:
      return "true or false";
    case Node::Kind::Integer:
      return "an integer";
    case Node::Kind::Float:
      return "a decimal number";
    case Node::Kind::String:
      return "a string";
    case Node::Kind::Array:
      return "a list";
    case Node::Kind::Table:
      return "a table";
    case Node::Kind::Date:
      return "a date or time";
  }
  return "?";
}

std::string to_text(const Node& node) {
  switch (node.kind) {
    case Node::Kind::Boolean:
      return node.boolean ? "true" : "false";
    case Node::Kind::Integer:
      return std::to_string(node.integer);
    case Node::Kind::Float:
      return format_number(node.number);
    case Node::Kind::String:
      return node.text;
    case Node::Kind::Array: {
      std::string text = "[";
      for (const Node& child : node.children) {
        text += (text.size() > 1 ? ", " : "") + to_text(child);
      }
      return text + "]";
    }
    case Node::Kind::Table: {
      std::string text = "{";
      for (const Node& child : node.children) {
        text += (text.size() > 1 ? ", " : "") + child.key + " = " + to_text(child);
      }
      return text + "}";
    }
    case Node::Kind::Date:
      return "date";
  }
  return {};
}

Result<Node> parse_document(std::string_view text, const std::string& file) {
  if (text.size() > kLongestDocument) {
    return Error{ErrorKind::Parse,
                 "it has " + std::to_string(text.size()) + " bytes, and the longest that is read " +
                     std::to_string(kLongestDocument) +
                     ": a schedule can lie in a CSV file of its own",
                 SourceSpan{file, 1, 1}};
  }
  if (const std::optional<Error> stray = find_stray_text(text, file)) return *stray;
  const toml::parse_result parsed = toml::parse(text, file);
  if (!parsed) {
    const toml::parse_error& error = parsed.error();
    return Error{ErrorKind::Parse, std::string(error.description()),
                 place(error.source(), file).span};
  }
  return convert(parsed.table(), file);
}

Result<Node> parse_override(const std::string& text, const std::string& given_by) {
  const SourceSpan where{given_by, 0, 0};
  const auto fault = [&](const std::string& why) {
    return Error{ErrorKind::Parse, why + " (" + given_by + " " + text + ")", where};
  };
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || text.find_first_of("\r\n") != std::string::npos) {
    return fault("expected section.key=value");
  }
  const std::string path = text.substr(0, equals);
  std::string raw = text.substr(equals + 1);
  raw.erase(0, raw.find_first_not_of(" \t"));
  Result<Node> parsed = parse_document(text, given_by);
  if (!parsed) parsed = parse_document(path + "=" + quote(raw), given_by);
  if (!parsed) return fault("expected section.key=value: " + parsed.error().message);
  mark_override(*parsed, {where, text});
  Node* leaf = &*parsed;
  while (leaf->is_table() && !leaf->inline_table && leaf->children.size() == 1) {
    leaf = &leaf->children.front();
  }
  if (leaf->kind != Node::Kind::String) leaf->text = raw;
  return parsed;
}

void merge(Node& into, const Node& from) {
  for (const Node& child : from.children) {
    Node* existing = into.find(child.key);
    if (!existing) {
      into.children.push_back(child);
    } else if (existing->is_table() && child.is_table() && !child.inline_table) {
      merge(*existing, child);
    } else {
      *existing = child;
    }
  }
}

bool set_value(Node& root, std::string_view path, const Node& value) {
  Node* table = &root;
  while (true) {
    if (!table->is_table()) return false;
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    Node* child = table->find(name);
    if (!child) {
      Node fresh;
      fresh.key = std::string(name);
      fresh.at = fresh.key_at = value.key_at;
      table->children.push_back(std::move(fresh));
      child = &table->children.back();
    }
    if (dot == std::string_view::npos) {
      const std::string key = child->key;
      *child = value;
      child->key = key;
      return true;
    }
    table = child;
    path.remove_prefix(dot + 1);
  }
}

std::string quote(std::string_view text) {
  static constexpr char kHex[] = "0123456789ABCDEF";
  std::string quoted = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      quoted += "\\u00";
      quoted += kHex[byte >> 4];
      quoted += kHex[byte & 15];
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

std::string format_number(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  char buffer[40];
  const auto end = std::to_chars(buffer, buffer + sizeof buffer, value).ptr;
  std::string text(buffer, end);
  if (text.find_first_of(".e") == std::string::npos) text += ".0";
  return text;
}

}  // namespace lockstep
