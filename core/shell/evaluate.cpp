// Commands: what each does to the state, and which ways there are.
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "core/shell/evaluator.hpp"

namespace lockstep::shell {
namespace {

using Kind = Node::Kind;
constexpr std::size_t kMostWork = 64 << 20;  // bytes of words that are made

}  // namespace

Evaluator::Evaluator(const std::map<std::string, std::string>& given) : given_(given) {
  for (const auto& [name, value] : given_) {
    if (!is_parameter(name)) {
      state_.variables[name] = {{value}};
      continue;
    }
    constexpr std::size_t kMost = 1000;
    const std::size_t number = name.size() < 4 ? std::stoul(name) : kMost;
    if (number == 0 || number >= kMost) continue;
    while (state_.parameters.size() < number) {
      state_.parameters.push_back(unset(std::to_string(state_.parameters.size() + 1)));
    }
    state_.parameters[number - 1] = value;
  }
}

const Variable* Evaluator::find(std::string_view name) {
  script_.read.emplace(name);
  const auto found = state_.variables.find(name);
  return found == state_.variables.end() ? nullptr : &found->second;
}

std::optional<std::string> Evaluator::value_of(std::string_view name) {
  if (is_parameter(name)) {
    script_.read.emplace(name);
    const std::size_t number = name.size() < 4 ? std::stoul(std::string(name)) : 1000;
    if (number == 0) return "script";
    if (number <= state_.parameters.size()) {
      const std::string& value = state_.parameters[number - 1];
      if (value == unset(name)) return std::nullopt;
      return value;
    }
    return state_.knows_parameters ? std::optional<std::string>("") : std::nullopt;
  }
  if (name == "#") {
    if (!state_.knows_parameters) return marked(hole(Hole::Kind::Other, "$#", line_));
    return std::to_string(state_.parameters.size());
  }
  if (name == "?") return marked(hole(Hole::Kind::Other, "$?", line_));
  const Variable* variable = find(name);
  if (variable == nullptr) return std::nullopt;
  return variable->values.empty() ? std::string() : variable->values.front();
}

int Evaluator::hole(Hole::Kind kind, const std::string& name, int line) {
  script_.holes.push_back({.kind = kind, .name = name, .line = line});
  return static_cast<int>(script_.holes.size()) - 1;
}

std::string Evaluator::marked(int hole) const {
  return kHoleBegin + std::to_string(hole) + kHoleEnd;
}

std::string Evaluator::unset(std::string_view name) {
  const auto [at, is_new] = unset_.try_emplace(std::string(name), 0);
  if (is_new) at->second = hole(Hole::Kind::Unset, std::string(name), line_);
  return marked(at->second);
}

void Evaluator::assume(const std::string& sentence) {
  auto& all = script_.assumed;
  if (std::find(all.begin(), all.end(), sentence) == all.end()) all.push_back(sentence);
}

bool Evaluator::spend(std::size_t bytes) {
  spent_ += bytes;
  if (spent_ > kMostWork && fault_.empty()) {
    fault_ =
        "the script makes more words than any that starts a training: give the arguments alone";
  }
  return fault_.empty();
}

void Evaluator::set(const std::string& name, Variable value) {
  if (given_.contains(name)) return;
  if (std::find(script_.order.begin(), script_.order.end(), name) == script_.order.end()) {
    script_.order.push_back(name);
  }
  state_.variables[name] = std::move(value);
}

void Evaluator::assign(const Assignment& a, int depth) {
  line_ = a.is_array ? line_ : a.value.line;
  const auto old = state_.variables.find(a.name);
  const bool has_old = a.appends && old != state_.variables.end();
  Variable value;
  if (a.is_array) {
    value.is_array = true;
    if (has_old) value.values = old->second.values;
    Words more = fields(a.values, depth + 1);
    value.values.insert(value.values.end(), more.begin(), more.end());
  } else {
    const std::string text = this->text(a.value.text, a.value.line, depth + 1);
    if (!a.index.empty()) {
      std::vector<int> causes;
      const auto index = computed(a.index, a.value.line, depth + 1, causes);
      if (old != state_.variables.end()) value = old->second;
      value.is_array = true;
      constexpr std::int64_t kMost = 10'000;
      if (!index || *index < 0 || *index > kMost) return;
      const auto at = static_cast<std::size_t>(*index);
      if (value.values.size() <= at) value.values.resize(at + 1);
      value.values[at] = text;
    } else if (has_old) {
      value = old->second;
      if (value.values.empty()) value.values.emplace_back();
      value.values.front() += text;
    } else {
      value.values = {text};
    }
  }
  std::size_t size = 0;
  for (const std::string& word : value.values) size += word.size() + 8;
  if (spend(size)) set(a.name, std::move(value));
}

Evaluator::Flow Evaluator::run(const Node& node, int depth) {
  if (depth > 2 * kDeepest || !spend(16)) return Flow::Next;
  line_ = node.line;
  switch (node.kind) {
    case Kind::List:
    case Kind::Group:
      for (const Node& child : node.children) {
        if (const Flow flow = run(child, depth + 1); flow != Flow::Next) return flow;
      }
      return Flow::Next;
    case Kind::Simple:
      return run_simple(node, depth);
    case Kind::And:
    case Kind::Or:
      return run_and_or(node, depth);
    case Kind::Not:
      condition(node, depth + 1);
      return Flow::Next;
    case Kind::Pipeline:
    case Kind::Subshell: {
      const State before = state_;
      for (const Node& child : node.children) {
        run(child, depth + 1);
        state_ = before;
      }
      return Flow::Next;
    }
    case Kind::If:
      return run_if(node, depth);
    case Kind::For:
      return run_for(node, depth);
    case Kind::While:
      return run_while(node, depth);
    case Kind::Case:
      return run_case(node, depth);
    case Kind::Function:
      state_.functions[node.name] = std::make_shared<const Node>(node.children.front());
      return Flow::Next;
    case Kind::Test:
    case Kind::Arithmetic:
      condition(node, depth + 1);
      return Flow::Next;
  }
  return Flow::Next;
}

Evaluator::Flow Evaluator::run_for(const Node& node, int depth) {
  const Words words = fields(node.words, depth + 1);
  if (node.children.empty() || (words.empty() && !node.name.empty())) return Flow::Next;
  if (!node.name.empty()) {
    const bool known = words.size() == 1;
    Variable value{{words.front()}};
    if (!known) {
      std::vector<Way> ways;
      for (const std::string& word : words) {
        ways.push_back({"for " + node.name + " = " + word, node.line, {word}});
      }
      value = merged(node.name, ways, false, {});
    }
    set(node.name, std::move(value));
  }
  const Flow flow = run(node.children.front(), depth + 1);
  return flow == Flow::Exit ? flow : Flow::Next;
}

Evaluator::Flow Evaluator::run_while(const Node& node, int depth) {
  constexpr int kMostTurns = 1000;
  for (int turn = 0; turn < kMostTurns; ++turn) {
    const Truth truth = condition(node.children[0], depth + 1);
    if (truth.open()) {
      if (turn > 0)
        assume("the loop of line " + std::to_string(node.line) + " ends after " +
               std::to_string(turn) + " turns");
      // Commands may stand in a loop that waits or tries again; values are those before it.
      const State before = state_;
      under_.push_back(
          {first_line(node.children[0].children.empty() ? ""
                                                        : node.children[0].children.back().text),
           node.line, truth.causes});
      if (turn == 0) run(node.children[1], depth + 1);
      under_.pop_back();
      state_ = before;
      return Flow::Next;
    }
    if (truth.yes() == node.negated) return Flow::Next;
    const Flow flow = run(node.children[1], depth + 1);
    if (flow != Flow::Next) return flow == Flow::Exit ? flow : Flow::Next;
    if (!fault_.empty()) return Flow::Next;
  }
  return Flow::Next;
}

void Evaluator::read_input(const Node& node, const Words& words, int depth) {
  Words names;
  bool whole = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    if (words[i] == "-d") {
      whole = true;
      if (i + 1 < words.size() && words[i + 1].empty()) ++i;
    } else if (!words[i].starts_with("-")) {
      names.push_back(words[i]);
    }
  }
  if (!node.has_input) {
    for (const std::string& name : names) {
      set(name, {{marked(hole(Hole::Kind::Output, "read " + name, node.line))}});
    }
    return;
  }
  std::string input = node.input_expands ? text(node.input, node.line, depth + 1,
                                                node.input.find('\n') != std::string::npos)
                                         : node.input;
  if (!whole) input = input.substr(0, input.find('\n'));
  const auto is_space = [](char c) { return c == ' ' || c == '\t' || c == '\n'; };
  std::size_t at = 0;
  for (std::size_t i = 0; i < names.size(); ++i) {
    while (at < input.size() && is_space(input[at])) ++at;
    std::size_t end = at;
    if (i + 1 == names.size()) {
      end = input.size();
      while (end > at && is_space(input[end - 1])) --end;
    } else {
      while (end < input.size() && !is_space(input[end])) ++end;
    }
    set(names[i], {{input.substr(at, end - at)}});
    at = end;
  }
}

bool Evaluator::builtin(const Node& node, const Words& words, Flow& flow, int depth) {
  const std::string& name = words.front();
  flow = Flow::Next;
  if (name == "exit") {
    flow = Flow::Exit;
  } else if (name == "return" || name == "break" || name == "continue") {
    flow = Flow::Leave;
  } else if (name == "shift") {
    const std::size_t n =
        words.size() > 1 && words[1].size() == 1 && words[1][0] > '0' && words[1][0] <= '9'
            ? static_cast<std::size_t>(words[1][0] - '0')
            : 1;
    auto& all = state_.parameters;
    all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(std::min(n, all.size())));
  } else if (name == "unset") {
    for (const std::string& variable : words) state_.variables.erase(variable);
  } else if (name == "set") {
    if (words.size() > 1 && words[1] == "--") {
      state_.parameters.assign(words.begin() + 2, words.end());
      state_.knows_parameters = true;
    }
  } else if (name == "read") {
    read_input(node, words, depth);
  } else if (name == "let") {
    for (std::size_t i = 1; i < words.size(); ++i) arithmetic(words[i], node.line, depth + 1);
  } else if (name == "eval") {
    std::string all;
    for (std::size_t i = 1; i < words.size(); ++i) all += words[i] + " ";
    flow = run_text(all, node.line, depth + 1);
  } else if (name == "[" || name == "test" || name == "echo" || name == "printf" || name == ":" ||
             name == "true" || name == "false" || name == "export" || name == "local" ||
             name == "declare" || name == "readonly" || name == "typeset" || name == "cd" ||
             name == "ulimit" || name == "wait" || name == "trap" || name == "sleep") {
    return true;
  } else {
    return false;
  }
  return true;
}

Evaluator::Flow Evaluator::run_text(const std::string& script, int line, int depth,
                                    const Words& before) {
  if (depth > kDeepest) return Flow::Next;
  Result<Node> parsed = parse(script, "");
  if (!parsed) {
    script_.commands.push_back({before, line, under_});
    return Flow::Next;
  }
  const Words outer = std::exchange(before_, before);
  const std::size_t first = script_.commands.size();
  const Flow flow = run(*parsed, depth + 1);
  for (std::size_t i = first; i < script_.commands.size(); ++i) script_.commands[i].line = line;
  before_ = outer;
  return flow;
}

Evaluator::Flow Evaluator::run_simple(const Node& node, int depth) {
  const Words words = fields(node.words, depth + 1);
  line_ = node.line;
  const bool declares =
      !words.empty() &&
      (words.front() == "export" || words.front() == "local" || words.front() == "declare" ||
       words.front() == "readonly" || words.front() == "typeset");
  if (words.empty() || declares) {
    for (const Assignment& a : node.assignments) assign(a, depth + 1);
    return Flow::Next;
  }
  Flow flow = Flow::Next;
  if (builtin(node, words, flow, depth)) return flow;
  if (const auto function = state_.functions.find(words.front());
      function != state_.functions.end() && depth < kDeepest) {
    const std::shared_ptr<const Node> body = function->second;
    const Words outer = std::exchange(state_.parameters, Words(words.begin() + 1, words.end()));
    const bool knew = std::exchange(state_.knows_parameters, true);
    const Flow inside = run(*body, depth + 8);
    state_.parameters = outer;
    state_.knows_parameters = knew;
    return inside == Flow::Exit ? inside : Flow::Next;
  }
  Words all = before_;
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string name = words[i].substr(words[i].rfind('/') + 1);
    const bool is_shell = name == "bash" || name == "sh" || name == "zsh";
    const bool takes_text =
        words[i + 1].starts_with("-") && words[i + 1].ends_with("c") && words[i + 1].size() < 6;
    if (is_shell && takes_text && i + 2 < words.size()) {
      all.insert(all.end(), words.begin(), words.begin() + static_cast<std::ptrdiff_t>(i));
      return run_text(words[i + 2], node.line, depth + 1, all);
    }
  }
  all.insert(all.end(), words.begin(), words.end());
  script_.commands.push_back({std::move(all), node.line, under_});
  return Flow::Next;
}

Result<Script> Evaluator::finish(const std::string& file) {
  if (!fault_.empty()) {
    return Error{ErrorKind::Unsupported, fault_, SourceSpan{file, line_, 1}};
  }
  for (const auto& [name, variable] : state_.variables) {
    script_.variables[name] = variable.values;
  }
  return std::move(script_);
}

bool has_hole(std::string_view word) { return word.find(kHoleBegin) != std::string_view::npos; }

std::vector<int> holes_of(std::string_view word) {
  std::vector<int> holes;
  for (std::size_t at = word.find(kHoleBegin); at != std::string_view::npos;
       at = word.find(kHoleBegin, at + 1)) {
    int number = 0;
    for (std::size_t i = at + 1; i < word.size() && word[i] >= '0' && word[i] <= '9'; ++i) {
      number = number * 10 + (word[i] - '0');
    }
    holes.push_back(number);
  }
  return holes;
}

std::string spoken(std::string_view word, const Script& script) {
  std::string out;
  std::size_t at = 0;
  for (const int number : holes_of(word)) {
    const std::size_t begin = word.find(kHoleBegin, at);
    out += word.substr(at, begin - at);
    const Hole& hole = script.holes[static_cast<std::size_t>(number)];
    const bool named = hole.kind == Hole::Kind::Unset || hole.kind == Hole::Kind::Ways;
    out += named                             ? "$" + hole.name
           : hole.kind == Hole::Kind::Output ? "$(" + hole.name + ")"
                                             : hole.name;
    at = word.find(kHoleEnd, begin) + 1;
  }
  return out + std::string(word.substr(std::min(at, word.size())));
}

Result<Script> evaluate(std::string_view text, const std::string& file,
                        const std::map<std::string, std::string>& given) {
  std::string clean(text);
  std::erase_if(clean, [](char c) { return c == kHoleBegin || c == kHoleEnd || c == '\0'; });
  const Result<Node> parsed = parse(clean, file);
  if (!parsed) return parsed.error();
  Evaluator evaluator(given);
  evaluator.run(*parsed, 0);
  return evaluator.finish(file);
}

}  // namespace lockstep::shell
