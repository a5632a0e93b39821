// Evaluator: the state of a script under evaluation. Its parts are in files of their own: words,
// arithmetic, conditions, commands. Internal to core/shell.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/shell/shell.hpp"
#include "core/shell/syntax.hpp"

namespace lockstep::shell {

using Words = std::vector<std::string>;

struct Variable {
  Words values;
  bool is_array = false;
  bool operator==(const Variable&) const = default;
};

/// What conditions decide among.
struct State {
  std::map<std::string, Variable, std::less<>> variables;
  std::map<std::string, std::shared_ptr<const Node>, std::less<>> functions;
  Words parameters;
  bool knows_parameters = false;  // whether there are no others
};

/// Whether a condition holds.
struct Truth {
  enum class Kind { No, Yes, Open };
  Kind kind = Kind::Open;
  bool assumed = false;       // that a variable which nothing sets is not set
  std::vector<int> causes{};  // holes, where it is open
  bool yes() const { return kind == Kind::Yes; }
  bool open() const { return kind == Kind::Open; }
};

/// The first line of a condition, for sentences.
std::string first_line(const std::string& text);

class Evaluator {
 public:
  explicit Evaluator(const std::map<std::string, std::string>& given);
  /// How the script goes on behind a command.
  enum class Flow { Next, Leave, Exit };
  Flow run(const Node& node, int depth);
  /// The evaluated script, or why there is none.
  Result<Script> finish(const std::string& file);

 private:
  // expand.cpp: words.
  /// The words that a word becomes, which are several where a value without quotes has blanks.
  Words fields(const RawWord& word, int depth);
  Words fields(const std::vector<RawWord>& words, int depth);
  /// One word, as in an assignment.
  std::string text(std::string_view raw, int line, int depth, bool in_double = false);
  /// A word as a pattern: what is quoted has a backslash before it.
  std::string pattern(std::string_view raw, int line, int depth);
  struct Parts;  // of a word that is being made
  void add_unit(std::string_view unit, Parts& parts, bool in_double, int depth);
  void add_braced(std::string_view inside, Parts& parts, bool in_double, int depth);
  void add_parameter(std::string_view name, Parts& parts, bool in_double);
  std::string output_of(std::string_view command, int line, int depth);
  std::string without_part(std::string value, std::string_view operation, int line, int depth);
  std::string replaced(std::string value, std::string_view operation, int line, int depth);
  std::string part_of(const std::string& value, std::string_view range, int line, int depth);

  // arithmetic.cpp
  /// The value of an expression, as text; a hole if it is not known.
  std::string arithmetic(std::string_view expression, int line, int depth);
  std::optional<std::int64_t> computed(std::string_view expression, int line, int depth,
                                       std::vector<int>& causes);

  // test.cpp: conditions.
  Truth test(const Words& words, const std::vector<RawWord>* raw, int line, int depth);
  Truth condition(const Node& node, int depth);
  friend class TestReader;
  friend class ArithmeticReader;

  // ways.cpp: what conditions decide.
  Flow run_if(const Node& node, int depth);
  Flow run_case(const Node& node, int depth);
  Flow run_and_or(const Node& node, int depth);
  /// What happens if one of several things does, of which the last is that none does.
  struct Choice {
    std::string condition;
    int line;
    std::vector<int> causes;
    const Node* body;  // null: nothing happens
    State before;
  };
  Flow run_ways(std::vector<Choice> choices, int depth);
  void merge(const std::vector<Choice>& choices, std::vector<State> states);
  Variable merged(const std::string& name, const std::vector<Way>& ways, bool is_array,
                  const std::vector<int>& causes);
  // evaluate.cpp: commands.
  Flow run_for(const Node& node, int depth);
  Flow run_while(const Node& node, int depth);
  Flow run_simple(const Node& node, int depth);
  Flow run_text(const std::string& script, int line, int depth, const Words& before = {});
  bool builtin(const Node& node, const Words& words, Flow& flow, int depth);
  void read_input(const Node& node, const Words& words, int depth);
  void assign(const Assignment& assignment, int depth);
  void set(const std::string& name, Variable value);

  const Variable* find(std::string_view name);
  /// The value of a variable or parameter; nullopt if nothing sets it.
  std::optional<std::string> value_of(std::string_view name);
  bool is_parameter(std::string_view name) const;
  int hole(Hole::Kind kind, const std::string& name, int line);
  std::string marked(int hole) const;
  std::string unset(std::string_view name);
  void assume(const std::string& sentence);
  bool spend(std::size_t bytes);

  State state_;
  Script script_;
  std::map<std::string, std::string> given_;
  std::vector<Step> under_;
  Words before_;  // words of the command that runs this text
  std::map<std::string, int, std::less<>> unset_;
  std::size_t spent_ = 0;
  int line_ = 0;
  std::string fault_;
  std::optional<Error> inner_;
};

}  // namespace lockstep::shell
