// Shell: what the commands of a shell script are, found without running any. Parameters, arrays,
// arithmetic, conditions and here-documents mean what bash(1) says. What a script does not say,
// such as the output of a command or a variable of the environment, is a hole in a word; where a
// condition has holes, both ways are followed, and what differs behind them is a hole, too.
#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep::shell {

/// One of the values that a hole may have, and when.
struct Way {
  std::string condition;           // "[ $SIZE = small ]", or "otherwise"
  int line = 0;                    // of the condition
  std::vector<std::string> words;  // none: not set
  bool operator==(const Way&) const = default;
};

/// What a script does not say.
struct Hole {
  enum class Kind {
    Unset,   // of a variable, or parameter ("1"), that nothing sets
    Output,  // of a command
    Ways,    // conditions that have holes
    Other    // words that are not evaluated
  };
  Kind kind = Kind::Other;
  std::string name{};         // of the variable; of Output the command
  int line = 0;               // where it came up first
  std::vector<Way> ways{};    // of Kind::Ways
  std::vector<int> causes{};  // holes of those conditions
};

/// A condition that has holes, under which a command stands.
struct Step {
  std::string condition;
  int line = 0;
  std::vector<int> causes;
  bool operator==(const Step&) const = default;
};

struct Command {
  std::vector<std::string> words;
  int line = 0;
  std::vector<Step> under;
};

struct Script {
  std::vector<Command> commands;  // in their order, without those that set variables
  std::vector<Hole> holes;
  std::vector<std::string> order;  // the variables that are set, by when they were first
  std::map<std::string, std::vector<std::string>> variables;  // at the end
  std::set<std::string> read;                                 // variables that anything reads
  std::vector<std::string> assumed;  // a sentence each: what was taken to be so
};

/// A word has a hole where these stand around its number in Script::holes.
inline constexpr char kHoleBegin = '\x01', kHoleEnd = '\x02';
bool has_hole(std::string_view word);
/// The numbers of a word's holes, in their order.
std::vector<int> holes_of(std::string_view word);
/// A word as a person would write it: "$SIZE" for a hole.
std::string spoken(std::string_view word, const Script& script);

/// Evaluates a script. `given` are values of variables, whatever the script sets them to, and of
/// parameters by their numbers. Errors: Parse, with line and column; Unsupported for a script that
/// takes more than any that starts a training.
Result<Script> evaluate(std::string_view text, const std::string& file,
                        const std::map<std::string, std::string>& given = {});

}  // namespace lockstep::shell
