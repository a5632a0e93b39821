// Ways: which commands run where a condition is known, and what differs behind one that is not.
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "core/shell/evaluator.hpp"

namespace lockstep::shell {

std::string first_line(const std::string& text) {
  const std::string line = text.substr(0, text.find('\n'));
  constexpr std::size_t kMost = 70;
  return line.size() > kMost ? line.substr(0, kMost) + " ..." : line;
}

Evaluator::Flow Evaluator::run_and_or(const Node& node, int depth) {
  const bool both = node.kind == Node::Kind::And;
  const std::size_t commands = script_.commands.size();
  const Truth left = condition(node.children[0], depth + 1);
  const Node& right = node.children[1];
  if (!left.open()) {
    if (left.yes() != both) return Flow::Next;
    const Flow flow = run(right, depth + 1);
    return left.assumed && flow != Flow::Next ? Flow::Next : flow;
  }
  // A command is taken to succeed.
  if (script_.commands.size() > commands || left.causes.empty()) {
    if (!both) return Flow::Next;
    const bool of_files = node.children[0].text.starts_with("[");
    if (!of_files) return run(right, depth + 1);
  }
  std::string condition = first_line(node.children[0].text);
  if (!both) condition = "not " + condition;
  std::vector<Choice> choices;
  choices.push_back({condition, node.line, left.causes, &right, state_});
  choices.push_back({"otherwise", node.line, {}, nullptr, state_});
  return run_ways(std::move(choices), depth);
}

Evaluator::Flow Evaluator::run_if(const Node& node, int depth) {
  std::vector<Choice> choices;
  std::size_t i = 0;
  for (; i + 1 < node.children.size(); i += 2) {
    const Node& body = node.children[i + 1];
    const Truth truth = condition(node.children[i], depth + 1);
    if (truth.kind == Truth::Kind::No) continue;
    const std::string said = first_line(
        node.children[i].children.empty() ? std::string() : node.children[i].children.back().text);
    if (truth.yes() && truth.assumed) {
      // What is not set may be missing, and then the script would end: so it is set.
      const State before = state_;
      const std::size_t commands = script_.commands.size();
      const Flow flow = run(body, depth + 1);
      if (flow == Flow::Next && choices.empty()) return flow;
      state_ = before;
      script_.commands.resize(std::min(script_.commands.size(), commands));
      if (flow != Flow::Next) continue;
    }
    choices.push_back({said, node.children[i].line, truth.causes, &body, state_});
    if (truth.yes()) break;
  }
  if (i + 1 >= node.children.size()) {
    const Node* otherwise = i < node.children.size() ? &node.children[i] : nullptr;
    choices.push_back({"otherwise", node.line, {}, otherwise, state_});
  }
  return run_ways(std::move(choices), depth);
}

Evaluator::Flow Evaluator::run_case(const Node& node, int depth) {
  const std::string subject = text(node.words.front().text, node.line, depth + 1);
  std::vector<Choice> choices;
  bool decided = false;
  for (const CaseItem& item : node.cases) {
    bool matches = false;
    std::vector<int> causes = holes_of(subject);
    std::string shown;
    for (const RawWord& raw : item.patterns) {
      const std::string what = pattern(raw.text, raw.line, depth + 1);
      shown += (shown.empty() ? "" : "|") + raw.text;
      const std::vector<int> more = holes_of(what);
      causes.insert(causes.end(), more.begin(), more.end());
      if (what == "*" || (causes.empty() && fnmatch(what.c_str(), subject.c_str(), 0) == 0)) {
        matches = true;
      }
    }
    if (!matches && causes.empty()) continue;
    const int line = item.patterns.empty() ? node.line : item.patterns.front().line;
    choices.push_back({"case " + node.words.front().text + " in " + shown, line, causes,
                       &item.body.front(), state_});
    if (matches) {
      decided = true;
      break;
    }
  }
  if (!decided) choices.push_back({"otherwise", node.line, {}, nullptr, state_});
  return run_ways(std::move(choices), depth);
}

Evaluator::Flow Evaluator::run_ways(std::vector<Choice> choices, int depth) {
  if (choices.size() == 1) {
    state_ = choices.front().before;
    return choices.front().body == nullptr ? Flow::Next : run(*choices.front().body, depth + 1);
  }
  std::vector<int> causes;
  for (const Choice& choice : choices) {
    causes.insert(causes.end(), choice.causes.begin(), choice.causes.end());
  }
  std::vector<State> states;
  std::vector<Choice> went_on;
  for (Choice& choice : choices) {
    state_ = choice.before;
    under_.push_back({choice.condition, choice.line, causes});
    const Flow flow = choice.body == nullptr ? Flow::Next : run(*choice.body, depth + 1);
    under_.pop_back();
    if (flow == Flow::Exit) continue;  // behind it the script goes on another way
    states.push_back(state_);
    choice.causes = causes;
    went_on.push_back(std::move(choice));
  }
  if (states.empty()) return Flow::Exit;
  merge(went_on, std::move(states));
  return Flow::Next;
}

void Evaluator::merge(const std::vector<Choice>& choices, std::vector<State> states) {
  State all = states.front();
  if (states.size() > 1) {
    std::map<std::string, bool> names;
    for (const State& state : states) {
      for (const auto& [name, variable] : state.variables) names[name] |= variable.is_array;
      for (const auto& [name, body] : state.functions) all.functions.try_emplace(name, body);
      if (state.parameters != all.parameters) all.parameters.clear();
    }
    for (const auto& [name, is_array] : names) {
      std::vector<Way> ways;
      bool same = true;
      const auto first = states.front().variables.find(name);
      for (std::size_t i = 0; i < states.size(); ++i) {
        const auto found = states[i].variables.find(name);
        const bool set = found != states[i].variables.end();
        const bool first_set = first != states.front().variables.end();
        same = same && set == first_set && (!set || found->second == first->second);
        ways.push_back(
            {choices[i].condition, choices[i].line, set ? found->second.values : Words()});
      }
      if (!same) all.variables[name] = merged(name, ways, is_array, choices.front().causes);
    }
  }
  state_ = std::move(all);
}

/// What all ways begin with stands before the hole, so that what is appended in several places lies
/// side by side.
Variable Evaluator::merged(const std::string& name, const std::vector<Way>& ways, bool is_array,
                           const std::vector<int>& causes) {
  Variable result;
  result.is_array = is_array;
  std::vector<Way> rest = ways;
  const auto all = [&](const auto& holds) { return std::all_of(rest.begin(), rest.end(), holds); };
  if (is_array) {
    std::size_t common = 0;
    while (all([&](const Way& w) {
      return w.words.size() > common && w.words[common] == ways.front().words[common];
    })) {
      ++common;
    }
    const auto n = static_cast<std::ptrdiff_t>(common);
    result.values.assign(ways.front().words.begin(), ways.front().words.begin() + n);
    for (Way& way : rest) way.words.erase(way.words.begin(), way.words.begin() + n);
    result.values.emplace_back();
  } else {
    result.values = {""};
    const bool set = all([](const Way& w) { return !w.words.empty(); });
    if (set) {
      const std::string& first = ways.front().words.front();
      std::size_t common = first.size();
      for (const Way& way : rest) {
        const std::string& other = way.words.front();
        std::size_t n = 0;
        while (n < std::min(common, other.size()) && first[n] == other[n]) ++n;
        common = n;
      }
      // Whole words: up to a blank, or to the end of the shortest if blanks follow in the others.
      const auto ends_word = [&](const Way& way) {
        const std::string& word = way.words.front();
        return word.size() <= common || word[common] == ' ';
      };
      if (!all(ends_word)) {
        const std::size_t blank = first.rfind(' ', common == 0 ? 0 : common - 1);
        common = common > 0 && blank != std::string::npos ? blank : 0;
      }
      if (common > 0) {
        result.values.front() = first.substr(0, common) + " ";
        for (Way& way : rest) {
          std::string& word = way.words.front();
          word.erase(0, std::min(word.size(), common + 1));
        }
      }
    }
  }
  const int made = hole(Hole::Kind::Ways, name, rest.front().line);
  Hole& hole = script_.holes.back();
  hole.ways = std::move(rest);
  hole.causes = causes;
  result.values.back() += marked(made);
  std::size_t size = 0;
  for (const Way& way : hole.ways) {
    for (const std::string& word : way.words) size += word.size() + 8;
  }
  spend(size);
  return result;
}

}  // namespace lockstep::shell
