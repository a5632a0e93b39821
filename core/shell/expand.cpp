// Words: quotes, parameters, commands and arithmetic in them.
#include <fnmatch.h>

#include <algorithm>
#include <cctype>

#include "core/shell/evaluator.hpp"

namespace lockstep::shell {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }

bool is_special(char c) {
  return std::string_view("@*#?$!-0123456789").find(c) != std::string_view::npos;
}

std::string joined(const Words& words) {
  std::string all;
  for (const std::string& word : words) all += (&word == &words.front() ? "" : " ") + word;
  return all;
}

/// A character that a backslash stands before in double quotes.
bool is_escaped_in_double(char c) { return c == '$' || c == '`' || c == '"' || c == '\\'; }

std::string unescaped_ansi(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const char c = text[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

}  // namespace

/// A word that is being made of its units.
struct Evaluator::Parts {
  Words done;
  std::string current;
  bool begun = false;    // whether `current` is a word, though it may be empty
  bool splits = true;    // at blanks of values without quotes
  bool escapes = false;  // what is quoted gets backslashes, for a pattern
  int line = 0;

  void end() {
    if (begun || !current.empty()) done.push_back(current);
    current.clear();
    begun = false;
  }
  void add_quoted(std::string_view text) {
    begun = true;
    for (const char c : text) {
      if (escapes && std::string_view("*?[]\\").find(c) != std::string_view::npos) current += '\\';
      current += c;
    }
  }
  void add_value(std::string_view text, bool quoted) {
    if (quoted) return add_quoted(text);
    if (!splits) {
      current += text;
      return;
    }
    for (const char c : text) {
      if (is_space(c)) {
        end();
      } else {
        current += c;
      }
    }
  }
  void add_list(const Words& words, bool apart, bool quoted) {
    if (!apart || !splits) return add_value(joined(words), quoted);
    bool first = true;
    for (const std::string& word : words) {
      if (!first) end();
      first = false;
      add_value(word, quoted);
    }
  }
};

Words Evaluator::fields(const RawWord& word, int depth) {
  Parts parts;
  parts.line = word.line;
  for (std::size_t at = 0; at < word.text.size();) {
    const std::size_t end = std::min(word.text.size(), end_of_unit(word.text, at));
    add_unit(std::string_view(word.text).substr(at, end - at), parts, false, depth);
    at = end;
  }
  parts.end();
  for (const std::string& field : parts.done) {
    if (!spend(field.size() + 8)) return {};
  }
  return parts.done;
}

Words Evaluator::fields(const std::vector<RawWord>& words, int depth) {
  Words all;
  for (const RawWord& word : words) {
    Words some = fields(word, depth);
    all.insert(all.end(), some.begin(), some.end());
  }
  return all;
}

std::string Evaluator::text(std::string_view raw, int line, int depth, bool in_double) {
  Parts parts;
  parts.line = line;
  parts.splits = false;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t end = std::min(raw.size(), end_of_unit(raw, at, in_double));
    add_unit(raw.substr(at, end - at), parts, in_double, depth);
    at = end;
  }
  return spend(parts.current.size() + 8) ? parts.current : std::string();
}

std::string Evaluator::pattern(std::string_view raw, int line, int depth) {
  Parts parts;
  parts.line = line;
  parts.splits = false;
  parts.escapes = true;
  for (std::size_t at = 0; at < raw.size();) {
    const std::size_t end = std::min(raw.size(), end_of_unit(raw, at));
    add_unit(raw.substr(at, end - at), parts, false, depth);
    at = end;
  }
  return parts.current;
}

void Evaluator::add_unit(std::string_view unit, Parts& parts, bool in_double, int depth) {
  if (depth > kDeepest || !spend(1)) return;
  const char c = unit.front();
  const auto inside = [&](std::size_t before, char close) {
    std::string_view rest = unit.substr(std::min(unit.size(), before));
    if (rest.ends_with(close)) rest.remove_suffix(1);
    return rest;
  };
  if (c == '\\' && unit.size() == 2) {
    if (unit[1] == '\n') return;
    if (in_double && !is_escaped_in_double(unit[1])) return parts.add_quoted(unit);
    return parts.add_quoted(unit.substr(1));
  }
  if (in_double && (c == '\'' || c == '"')) return parts.add_quoted(unit);
  if (c == '\'') return parts.add_quoted(inside(1, '\''));
  if (c == '"') {
    parts.begun = true;
    const std::string_view quoted = inside(1, '"');
    // "${none[@]}" alone is no word at all.
    const bool is_list = quoted == "$@" || (quoted.starts_with("${") && quoted.ends_with("[@]}"));
    if (is_list && parts.current.empty()) parts.begun = false;
    for (std::size_t at = 0; at < quoted.size();) {
      const std::size_t end = std::min(quoted.size(), end_of_unit(quoted, at, true));
      add_unit(quoted.substr(at, end - at), parts, true, depth + 1);
      at = end;
    }
    return;
  }
  if (c == '`') {
    std::string command(inside(1, '`'));
    return parts.add_value(output_of(command, parts.line, depth + 1), in_double);
  }
  if (c != '$' || unit.size() < 2) {
    if (in_double) return parts.add_quoted(unit);
    parts.current += unit;
    return;
  }
  if (unit.starts_with("$((") && unit.ends_with("))")) {
    return parts.add_value(arithmetic(unit.substr(3, unit.size() - 5), parts.line, depth + 1),
                           in_double);
  }
  if (unit[1] == '(')
    return parts.add_value(output_of(inside(2, ')'), parts.line, depth + 1), in_double);
  if (unit[1] == '{') return add_braced(inside(2, '}'), parts, in_double, depth + 1);
  if (unit[1] == '\'') return parts.add_quoted(unescaped_ansi(inside(2, '\'')));
  add_parameter(unit.substr(1), parts, in_double);
}

bool Evaluator::is_parameter(std::string_view name) const {
  return !name.empty() &&
         std::all_of(name.begin(), name.end(), [](char c) { return c >= '0' && c <= '9'; });
}

void Evaluator::add_parameter(std::string_view name, Parts& parts, bool in_double) {
  if (name == "@" || name == "*") {
    Words all = state_.parameters;
    if (!state_.knows_parameters) all.push_back(unset("@"));
    return parts.add_list(all, name == "@" || !in_double, in_double);
  }
  const std::optional<std::string> value = value_of(name);
  parts.add_value(value ? *value : unset(name), in_double);
}

void Evaluator::add_braced(std::string_view inside, Parts& parts, bool in_double, int depth) {
  const bool length = inside.size() > 1 && inside.front() == '#';
  const bool indirect = inside.size() > 1 && inside.front() == '!';
  std::string_view rest = inside.substr(length || indirect ? 1 : 0);
  std::size_t end = 0;
  if (!rest.empty() && is_name_start(rest.front())) {
    while (end < rest.size() && is_name_char(rest[end])) ++end;
  } else if (!rest.empty() && is_special(rest.front())) {
    end = 1;
    while (end < rest.size() && std::isdigit(static_cast<unsigned char>(rest[0])) != 0 &&
           std::isdigit(static_cast<unsigned char>(rest[end])) != 0) {
      ++end;
    }
  }
  std::string name(rest.substr(0, end));
  rest.remove_prefix(end);
  if (name.empty()) {
    return parts.add_value(
        marked(hole(Hole::Kind::Other, "${" + std::string(inside) + "}", parts.line)), in_double);
  }
  Words values;
  bool is_set = false, whole = name == "@" || name == "*", apart = name == "@";
  if (rest.starts_with("[")) {
    const std::size_t close = std::min(rest.size() - 1, rest.find(']'));
    const std::string_view index = rest.substr(1, close - 1);
    rest.remove_prefix(close + 1);
    const Variable* variable = find(name);
    if (index == "@" || index == "*") {
      whole = true;
      apart = index == "@";
      if (variable != nullptr) values = variable->values;
      is_set = variable != nullptr && !values.empty();
      if (variable == nullptr) values = {unset(name)};
    } else {
      std::vector<int> causes;
      const std::optional<std::int64_t> at = computed(index, parts.line, depth + 1, causes);
      if (variable != nullptr && at) {
        const std::int64_t i =
            *at < 0 ? *at + static_cast<std::int64_t>(variable->values.size()) : *at;
        is_set = i >= 0 && i < static_cast<std::int64_t>(variable->values.size());
        values = {is_set ? variable->values[static_cast<std::size_t>(i)] : ""};
      } else {
        is_set = true;
        values = {variable == nullptr ? unset(name)
                                      : marked(hole(Hole::Kind::Other,
                                                    "${" + std::string(inside) + "}", parts.line))};
      }
    }
  } else if (whole) {
    values = state_.parameters;
    if (!state_.knows_parameters) values.push_back(unset("@"));
    is_set = !values.empty();
  } else {
    std::optional<std::string> value = value_of(name);
    if (indirect && value) {
      name = *value;
      value = has_hole(name) ? std::nullopt : value_of(name);
    }
    is_set = value.has_value();
    values = {value.value_or("")};
  }
  const bool holed =
      std::any_of(values.begin(), values.end(), [](const auto& v) { return has_hole(v); });
  const auto give = [&](const std::string& value) { parts.add_value(value, in_double); };
  const auto other = [&] {
    give(marked(hole(Hole::Kind::Other, "${" + std::string(inside) + "}", parts.line)));
  };
  if (length) {
    if (holed || (!is_set && !whole)) return other();
    return give(std::to_string(whole ? values.size() : values.front().size()));
  }
  if (rest.empty()) {
    if (!is_set && !whole) return give(unset(name));
    return parts.add_list(values, apart || (whole && !in_double), in_double);
  }
  const bool colon = rest.front() == ':' && rest.size() > 1 &&
                     std::string_view("-=+?").find(rest[1]) != std::string_view::npos;
  const char operation = rest[colon ? 1 : 0];
  if (colon || std::string_view("-=+?").find(operation) != std::string_view::npos) {
    const std::string_view word = rest.substr(colon ? 2 : 1);
    const bool usable = is_set && !(colon && joined(values).empty());
    const auto add_word = [&] {
      for (std::size_t at = 0; at < word.size();) {
        const std::size_t stop = std::min(word.size(), end_of_unit(word, at, in_double));
        const std::string_view unit = word.substr(at, stop - at);
        // Blanks of the word itself part it, as those of values do.
        if (!in_double && unit.size() == 1 && is_space(unit.front())) {
          parts.add_value(unit, false);
        } else {
          add_unit(unit, parts, in_double, depth + 1);
        }
        at = stop;
      }
    };
    if (operation == '+') {
      if (usable && !holed) return add_word();
      if (!usable) return;
      return other();
    }
    if (usable) return parts.add_list(values, apart, in_double);
    if (operation == '?') return give(unset(name));
    if (find(name) == nullptr && !whole && !word.empty()) {
      assume("$" + name + " is not set, and " + std::string(word) + " stands for it");
    }
    if (operation == '=' && is_name_start(name.front())) {
      set(name, {{text(word, parts.line, depth + 1)}});
    }
    return add_word();
  }
  if (!is_set && !whole) return give(unset(name));
  if (holed) return other();
  if (rest.front() == ':' && whole) {
    std::vector<int> causes;
    const auto from =
        computed(rest.substr(1, rest.find(':', 1) - 1), parts.line, depth + 1, causes);
    if (!from || *from < 0 || rest.find(':', 1) != std::string_view::npos) return other();
    const auto skipped = static_cast<std::size_t>(*from) - (name == "@" && *from > 0 ? 1 : 0);
    values.erase(values.begin(),
                 values.begin() + static_cast<std::ptrdiff_t>(std::min(values.size(), skipped)));
    return parts.add_list(values, apart, in_double);
  }
  for (std::string& value : values) {
    switch (rest.front()) {
      case '#':
      case '%':
        value = without_part(value, rest, parts.line, depth + 1);
        break;
      case '/':
        value = replaced(value, rest, parts.line, depth + 1);
        break;
      case ':':
        value = part_of(value, rest.substr(1), parts.line, depth + 1);
        break;
      case '^':
      case ',':
        for (char& c : value) {
          const auto letter = static_cast<unsigned char>(c);
          c = static_cast<char>(rest.front() == '^' ? std::toupper(letter) : std::tolower(letter));
          if (rest.size() == 1) break;
        }
        break;
      default:
        return other();
    }
  }
  parts.add_list(values, apart, in_double);
}

std::string Evaluator::without_part(std::string value, std::string_view operation, int line,
                                    int depth) {
  const char side = operation.front();
  const bool longest = operation.size() > 1 && operation[1] == side;
  const std::string what = pattern(operation.substr(longest ? 2 : 1), line, depth);
  if (has_hole(what))
    return marked(hole(Hole::Kind::Other, "${" + std::string(operation) + "}", line));
  constexpr std::size_t kLongest = 4096;
  if (value.size() > kLongest) return value;
  for (std::size_t i = 0; i <= value.size(); ++i) {
    const std::size_t n = longest ? value.size() - i : i;  // of the part
    const std::string part = side == '#' ? value.substr(0, n) : value.substr(value.size() - n);
    if (fnmatch(what.c_str(), part.c_str(), 0) != 0) continue;
    return side == '#' ? value.substr(n) : value.substr(0, value.size() - n);
  }
  return value;
}

std::string Evaluator::replaced(std::string value, std::string_view operation, int line,
                                int depth) {
  const bool all = operation.starts_with("//");
  const std::string_view rest = operation.substr(all ? 2 : 1);
  std::size_t slash = 0;
  while (slash < rest.size() && rest[slash] != '/')
    slash = std::min(rest.size(), end_of_unit(rest, slash));
  const std::string what = pattern(rest.substr(0, slash), line, depth);
  const std::string with =
      slash < rest.size() ? text(rest.substr(slash + 1), line, depth) : std::string();
  constexpr std::size_t kLongest = 1024;
  if (has_hole(what) || value.size() > kLongest || what.empty()) {
    return has_hole(what)
               ? marked(hole(Hole::Kind::Other, "${" + std::string(operation) + "}", line))
               : value;
  }
  std::string out;
  for (std::size_t at = 0; at < value.size();) {
    std::size_t n = value.size() - at;
    while (n > 0 && fnmatch(what.c_str(), value.substr(at, n).c_str(), 0) != 0) --n;
    if (n == 0) {
      out += value[at++];
      continue;
    }
    out += with;
    at += n;
    if (!all) return out + value.substr(at);
    if (!spend(n + with.size())) return {};
  }
  return out;
}

std::string Evaluator::part_of(const std::string& value, std::string_view range, int line,
                               int depth) {
  const std::size_t colon = range.find(':');
  std::vector<int> causes;
  const auto size = static_cast<std::int64_t>(value.size());
  const std::optional<std::int64_t> from = computed(range.substr(0, colon), line, depth, causes);
  std::optional<std::int64_t> count = size;
  if (colon != std::string_view::npos)
    count = computed(range.substr(colon + 1), line, depth, causes);
  if (!from || !count)
    return marked(hole(Hole::Kind::Other, "${:" + std::string(range) + "}", line));
  const std::int64_t begin = *from < 0 ? size + *from : *from;
  if (begin < 0 || begin > size) return {};
  const std::int64_t end = *count < 0 ? size + *count : begin + std::min(*count, size - begin);
  if (end < begin) return {};
  return value.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
}

/// What a command prints that computes and does nothing else; a hole for all others.
std::string Evaluator::output_of(std::string_view command, int line, int depth) {
  const std::string shown(command.substr(0, command.find('\n')));
  const auto unknown = [&] { return marked(hole(Hole::Kind::Output, shown, line)); };
  if (depth > kDeepest) return unknown();
  const Result<Node> parsed = parse(command, "");
  if (!parsed || parsed->children.size() != 1) return unknown();
  const Node& node = parsed->children.front();
  if (node.kind != Node::Kind::Simple || !node.assignments.empty()) return unknown();
  Words words = fields(node.words, depth + 1);
  if (words.empty()) return unknown();
  const std::string name = words.front();
  std::string out;
  if (name == "cat" && words.size() == 1 && node.has_input) {
    out = node.input_expands ? text(node.input, line, depth + 1, true) : node.input;
  } else if (name == "echo") {
    words.erase(words.begin());
    if (!words.empty() && (words.front() == "-n" || words.front() == "-e"))
      words.erase(words.begin());
    out = joined(words);
  } else if (name == "printf" && words.size() == 3 && (words[1] == "%s" || words[1] == "%d")) {
    out = words[2];
  } else if (name == "expr" && words.size() > 2) {
    words.erase(words.begin());
    return arithmetic(joined(words), line, depth + 1);
  } else if (name == "basename" && words.size() == 2 && !has_hole(words[1])) {
    out = words[1].substr(words[1].find_last_of('/') + 1);
  } else {
    return unknown();
  }
  while (out.ends_with('\n')) out.pop_back();
  return out;
}

}  // namespace lockstep::shell
