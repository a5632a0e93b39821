// Reader: reads one table of a scenario file into the fields of a spec. It notes a fault, keeps the
// default of the field and goes on, so that the user sees all faults at once.
#pragma once

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "core/scenario/document.hpp"
#include "core/spec/keys/keys.hpp"

namespace lockstep {

class Diagnostics {
 public:
  void add(const Location& at, std::string message, ErrorKind kind = ErrorKind::Parse);
  /// Also remembers that the dotted `key` has a fault: what validate() says of that key then
  /// follows from this fault, and is not reported.
  void add_for_key(const std::string& key, const Location& at, std::string message,
                   ErrorKind kind = ErrorKind::Parse);
  bool has_key(const std::string& key) const;
  bool empty() const { return notes_.empty(); }
  std::vector<Error> take();  // in file order, those of overrides last, each once
  /// Notes something that is legal but rarely meant.
  void warn(const Location& at, std::string message);
  std::vector<Error> take_warnings();

 private:
  struct Note {
    SourceSpan where;
    ErrorKind kind;
    std::string message;
    bool operator==(const Note&) const = default;
  };
  static void note(std::vector<Note>& notes, const Location& at, std::string message,
                   ErrorKind kind);
  static std::vector<Error> in_file_order(std::vector<Note> notes);
  std::vector<Note> notes_, warnings_;
  std::vector<std::string> keys_;
};

/// As suggest() of core/base, but lists the valid names even if one is near; for short lists.
std::string suggest_and_list(std::string_view name, const std::vector<std::string>& valid);

class Reader : public KeyVisitor<Reader> {
 public:
  /// `table` is null for an absent section; every field then keeps its value.
  Reader(const Node* table, std::string path, Diagnostics& diagnostics);

  void field(const char* key, bool& out);
  void field(const char* key, int& out);
  void field(const char* key, std::int64_t& out);
  void field(const char* key, std::uint64_t& out);
  void field(const char* key, double& out, UnitPrefix prefix = UnitPrefix::One);
  void field(const char* key, std::string& out);
  void field(const char* key, std::vector<int>& out);
  void field(const char* key, std::vector<std::string>& out);
  void field(const char* key, std::vector<double>& out);  // a list, or one number
  void field(const char* key, Bytes& out, UnitPrefix prefix);
  void field(const char* key, std::vector<PeakRate>& out);
  void field(const char* key, std::vector<EfficiencyPoint>& out);
  template <class Dim>
  void field(const char* key, Quantity<Dim>& out, UnitPrefix prefix) {
    field(key, out.v, prefix);
  }
  template <class E>
  requires std::is_enum_v<E>
  void field(const char* key, E& out) {
    const Node* node = expect(key, Node::Kind::String);
    if (!node) return;
    std::vector<std::string> names;
    for (const auto& [name, value] : choices(E{})) {
      if (same_name(name, node->text)) {
        out = value;
        return;
      }
      names.emplace_back(name);
    }
    add(*node, key,
        std::string("unknown ") + key + " '" + node->text + "'" +
            suggest_and_list(node->text, names));
  }
  template <class T>
  void field(const char* key, std::optional<T>& out) {
    T value{};
    field(key, value);
    if (given(key)) out = value;
  }
  template <class T>
  void table(const char* key, T& out) {
    Reader inner(expect(key, Node::Kind::Table), inner_path(key), diagnostics_);
    describe(inner, out);
    inner.finish();
  }
  template <class T>
  void tables(const char* key, std::vector<T>& out) {
    const Node* list = expect(key, Node::Kind::Array);
    if (!list) return;
    out.clear();
    for (const Node& element : list->children) {
      if (!element.is_table()) {
        add(element, key, std::string(key) + " must be a list of tables");
        continue;
      }
      Reader inner(&element, inner_path(key), diagnostics_);
      describe(inner, out.emplace_back());
      inner.finish();
    }
  }

  bool given(std::string_view key) const { return table_ && table_->find(key); }
  const Node* node(std::string_view key) const { return table_ ? table_->find(key) : nullptr; }
  /// The value of `key` if it is present and of `kind`, else null; notes a value of another kind.
  const Node* expect(const char* key, Node::Kind kind);
  void add(const Node& at, const std::string& key, std::string message);
  /// Notes a fault for every key of the table that no field() asked for.
  void finish();

 private:
  std::string inner_path(const std::string& key) const {
    return path_.empty() ? key : path_ + "." + key;
  }
  static bool same_name(std::string_view a, std::string_view b);  // equal except for case
  bool integer(const char* key, const Node& node, std::int64_t low, std::int64_t high,
               std::int64_t& out);
  bool number(const char* key, const Node& node, double& out);

  const Node* table_;
  std::string path_;  // "" for the top level
  Diagnostics& diagnostics_;
  std::vector<std::string> known_;
};

}  // namespace lockstep
