#include "core/handover/megatron_arguments.hpp"

#include <algorithm>
#include <cctype>
#include <map>

namespace lockstep {
namespace {

using Variables = std::map<std::string, std::string, std::less<>>;

struct Word {
  std::string text;
  int line = 0;
};

bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

/// The words of a shell script without comments. Quotes hold words together; brackets, semicolons
/// and bars part them.
std::vector<Word> words_of(std::string_view text) {
  std::vector<Word> words;
  std::string word;
  bool begun = false;
  int line = 1, first_line = 1, braces = 0;
  char quote = 0;
  const auto begin = [&] {
    if (!begun) first_line = line;
    begun = true;
  };
  const auto end = [&] {
    if (begun) words.push_back({word, first_line});
    word.clear();
    begun = false;
  };
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (quote != 0) {
      if (c == quote) {
        quote = 0;
      } else if (c != '\\' || i + 1 >= text.size() || text[i + 1] != '\n') {
        word += c == '\n' ? ' ' : c;
      }
      continue;
    }
    if (c == '\\' && i + 1 < text.size()) {
      if (text[i + 1] == '\n') {
        end();
      } else {
        begin();
        word += text[i + 1];
      }
      if (text[++i] == '\n') ++line;
    } else if (c == '#' && !begun) {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
    } else if (c == '"' || c == '\'') {
      quote = c;
      begin();
    } else if (c == '{' && begun && word.ends_with('$')) {
      word += c;
      ++braces;
    } else if (c == '}' && braces > 0) {
      word += c;
      --braces;
    } else if (std::isspace(static_cast<unsigned char>(c)) != 0 ||
               (braces == 0 && std::string_view("();|&<>").find(c) != std::string_view::npos)) {
      end();
    } else {
      begin();
      word += c;
    }
  }
  end();
  return words;
}

/// Puts in $NAME, ${NAME} and ${NAME:-otherwise}; what has no value stays as it is.
std::string expanded(std::string_view text, const Variables& variables) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '$' || i + 1 >= text.size()) {
      out += text[i];
      continue;
    }
    const bool braced = text[i + 1] == '{';
    std::size_t begin = i + 1 + (braced ? 1 : 0), end = begin;
    while (end < text.size() && is_name_char(text[end])) ++end;
    const auto found = variables.find(text.substr(begin, end - begin));
    std::size_t next = end;
    std::string otherwise(text.substr(i, end - i));
    if (braced) {
      const std::size_t close = text.find('}', end);
      if (close == std::string_view::npos) return out + std::string(text.substr(i));
      const std::string_view rest = text.substr(end, close - end);
      otherwise = rest.starts_with(":-") || rest.starts_with(":=")
                      ? std::string(rest.substr(2))
                      : std::string(text.substr(i, close + 1 - i));
      if (found != variables.end() && !rest.empty() && rest.front() != ':') {
        out += std::string(text.substr(i, close + 1 - i));  // an array, or a part of a value
        i = close;
        continue;
      }
      next = close + 1;
    }
    out += found != variables.end() ? found->second : otherwise;
    i = next - 1;
  }
  return out;
}

/// The length of NAME in NAME=value or NAME+=value; 0 if the word is none.
std::size_t assigned_name(std::string_view word) {
  std::size_t end = 0;
  while (end < word.size() && is_name_char(word[end])) ++end;
  if (end == 0 || std::isdigit(static_cast<unsigned char>(word.front())) != 0) return 0;
  const std::string_view rest = word.substr(end);
  return rest.starts_with("=") || rest.starts_with("+=") ? end : 0;
}

bool is_name(std::string_view word) {
  return word.starts_with("--") && word.size() > 2 &&
         std::isalpha(static_cast<unsigned char>(word[2])) != 0;
}

}  // namespace

bool is_list_of_arguments(std::string_view text) {
  bool first = true;
  while (!text.empty()) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    const std::size_t begin = line.find_first_not_of(" \t\r\"");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    line.remove_prefix(begin);
    if (first && is_name(line)) return true;
    first = false;
    const std::size_t colon = line.find(':');
    const bool is_key = is_name(line) && colon != std::string_view::npos &&
                        line.find_first_of(" =") > colon &&
                        (colon + 1 == line.size() || line[colon + 1] == ' ');
    if (is_key) return true;
  }
  return false;
}

std::vector<MegatronArgument> megatron_arguments(std::string_view text) {
  std::vector<MegatronArgument> arguments;
  Variables variables;
  bool open = false;  // whether words are values of the last argument
  const auto take = [&](const std::string& word, int line) {
    if (is_name(word)) {
      const std::size_t end = word.find_first_of("=:");
      std::string name = word.substr(2, end == std::string::npos ? end : end - 2);
      std::replace(name.begin(), name.end(), '_', '-');
      arguments.push_back({name, end == std::string::npos ? "" : word.substr(end + 1), line});
      open = true;
    } else if (open && !arguments.empty()) {
      std::string& value = arguments.back().value;
      value += (value.empty() ? "" : " ") + word;
    }
  };
  int last_line = 0;
  for (const Word& raw : words_of(text)) {
    // A value stands on the line of its name, but for lists of arguments, a word a line.
    if (open && raw.line != last_line && !arguments.empty() && !arguments.back().value.empty()) {
      open = false;
    }
    last_line = raw.line;
    if (const std::size_t name = assigned_name(raw.text); name > 0) {
      const std::size_t value = raw.text.find('=') + 1;
      const std::string given = expanded(raw.text.substr(value), variables);
      if (given.find("--") == std::string::npos) {
        if (!given.empty() && raw.text[name] == '=') variables[raw.text.substr(0, name)] = given;
        open = false;
        continue;
      }
      for (const Word& inner : words_of(given)) take(inner.text, raw.line);
      open = false;
      continue;
    }
    if (raw.text.find("[@]") != std::string::npos || raw.text.find("[*]") != std::string::npos) {
      open = false;
      continue;
    }
    const std::string word = expanded(raw.text, variables);
    if (raw.text.starts_with("--") && word.find(' ') != std::string::npos) {
      for (const Word& inner : words_of(word)) take(inner.text, raw.line);
    } else {
      take(word, raw.line);
    }
  }
  return arguments;
}

}  // namespace lockstep
