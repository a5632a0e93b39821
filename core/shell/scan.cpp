#include <cctype>

#include "core/shell/syntax.hpp"

namespace lockstep::shell {

bool is_name_start(char c) { return std::isalpha(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_name_char(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }
bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\r'; }

std::size_t end_of_nested(std::string_view text, std::size_t at, char open, char close, int depth) {
  if (depth > kDeepest) return std::string_view::npos;
  int inner = 0;
  while (at < text.size()) {
    if (text[at] == close && inner == 0) return at;
    if (text[at] == close) --inner;
    if (open != 0 && text[at] == open) ++inner;
    const bool whole = text[at] != close && text[at] != open;
    at = whole ? end_of_unit(text, at, close == '"', depth + 1) : at + 1;
    if (at == std::string_view::npos) return at;
  }
  return text.size();
}

std::size_t end_of_unit(std::string_view text, std::size_t at, bool in_double, int depth) {
  const auto closed = [&](std::size_t end) {
    return end == std::string_view::npos ? end : std::min(text.size(), end + 1);
  };
  const char c = text[at];
  if (c == '\\') return std::min(text.size(), at + 2);
  if (c == '\'' && !in_double) {
    const std::size_t end = text.find('\'', at + 1);
    return end == std::string_view::npos ? text.size() : end + 1;
  }
  if (c == '"' && !in_double) return closed(end_of_nested(text, at + 1, 0, '"', depth));
  if (c == '`') {
    for (++at; at < text.size() && text[at] != '`'; ++at) {
      if (text[at] == '\\') ++at;
    }
    return std::min(text.size(), at + 1);
  }
  if (c == '$' && at + 1 < text.size()) {
    const char next = text[at + 1];
    if (next == '(') return closed(end_of_nested(text, at + 2, '(', ')', depth));
    if (next == '{') return closed(end_of_nested(text, at + 2, '{', '}', depth));
    if (next == '\'' && !in_double) {  // $'...'
      for (at += 2; at < text.size() && text[at] != '\''; ++at) {
        if (text[at] == '\\') ++at;
      }
      return std::min(text.size(), at + 1);
    }
    std::size_t end = at + 1;
    if (is_name_start(next)) {
      while (end < text.size() && is_name_char(text[end])) ++end;
      return end;
    }
    if (std::string_view("@*#?$!-0123456789").find(next) != std::string_view::npos) return at + 2;
  }
  return at + 1;
}

}  // namespace lockstep::shell
