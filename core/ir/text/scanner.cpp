#include "core/ir/text/scanner.hpp"

#include <algorithm>

#include "core/base/nearest.hpp"

namespace lockstep::text {
namespace {

// These limit the search for a similar name, so that no text makes an error message slow.
constexpr std::size_t kMaxComparedLength = 64;
constexpr std::size_t kMaxCandidates = 1000;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  return -1;
}

}  // namespace

bool Scanner::next_line() {
  while (true) {
    if (line_ends()) at_ = std::find(at_, end_, '\n');  // past a comment
    if (at_ == end_) return false;
    if (*at_ != '\n') return true;
    ++at_;
  }
}

bool Scanner::line_ends() { return mark() == end_ || *at_ == '\n' || *at_ == '#'; }

bool Scanner::expect_line_end() {
  return line_ends() || fail(at_, "unexpected " + next_text() + " before the end of the line");
}

bool Scanner::take(std::string_view s) {
  if (!std::string_view(mark(), end_).starts_with(s)) return false;
  at_ += s.size();
  return true;
}

bool Scanner::expect(char c) {
  if (take(c)) return true;
  return fail(at_, std::string("expected '") + c + "', found " + next_text());
}

std::string_view Scanner::word() {
  const char* start = mark();
  if (at_ != end_ && is_name_start(*at_)) {
    while (at_ != end_ && is_name_char(*at_)) ++at_;
  }
  return {start, at_};
}

bool Scanner::take_word(std::string_view expected) {
  const char* start = mark();
  if (word() == expected) return true;
  at_ = start;
  return false;
}

bool Scanner::expect_word(std::string_view expected) {
  const char* start = mark();
  const std::string found = next_text();
  if (word() == expected) return true;
  return fail(start, "expected \"" + std::string(expected) + "\", found " + found);
}

bool Scanner::name(std::string& out) {
  const char* start = mark();
  if (!take('"')) {
    out.assign(word());
    return !out.empty() || fail(start, "expected a name, found " + next_text());
  }
  out.clear();
  while (at_ != end_ && *at_ != '\n') {
    const char c = *at_++;
    if (c == '"') return true;
    if (c != '\\') {
      out += c;
      continue;
    }
    const auto left = end_ - at_;
    if (left >= 1 && (*at_ == '"' || *at_ == '\\')) {
      out += *at_++;
    } else if (left >= 3 && *at_ == 'x' && hex_digit(at_[1]) >= 0 && hex_digit(at_[2]) >= 0) {
      out += static_cast<char>(hex_digit(at_[1]) * 16 + hex_digit(at_[2]));
      at_ += 3;
    } else {
      return fail(at_ - 1, R"(unknown escape; known are \", \\ and \xhh)");
    }
  }
  return fail(start, "the name has no closing quote");
}

bool Scanner::reference(const NameTable& table, std::string_view what, int& out) {
  const char* start = mark();
  if (take('@')) {
    if (!number(out)) return false;
    if (out >= 0 && out < table.size()) return true;
    return fail(start, "there is no " + std::string(what) + " @" + std::to_string(out) +
                           "; there are " + std::to_string(table.size()));
  }
  if (!name(scratch_)) return false;
  out = table.find(scratch_);
  if (out >= 0) return true;
  if (out == NameTable::kAmbiguous) {
    return fail(start, "more than one " + std::string(what) + " is named " + shown(scratch_) +
                           "; refer to it by its index, as in @0");
  }
  return fail(start, "unknown " + std::string(what) + " " + shown(scratch_) +
                         suggestion(scratch_, table.names()));
}

bool Scanner::choose(const char* start, std::string_view word,
                     const std::vector<std::string>& names, std::string_view what, int& out) {
  const auto found = std::find(names.begin(), names.end(), word);
  out = static_cast<int>(found - names.begin());
  if (found != names.end()) return true;
  if (word.empty())
    return fail(start, "expected a " + std::string(what) + ", found " + next_text());
  return fail(start, "unknown " + std::string(what) + " " + shown(word) + suggestion(word, names));
}

bool Scanner::fail(const char* at, std::string message) {
  if (error_) return false;
  const auto line = std::count(begin_, at, '\n');
  const char* line_begin = at;
  while (line_begin != begin_ && line_begin[-1] != '\n') --line_begin;
  error_ =
      Error{ErrorKind::Parse, std::move(message),
            SourceSpan{file_, static_cast<int>(line) + 1, static_cast<int>(at - line_begin) + 1}};
  return false;
}

std::string Scanner::next_text() const {
  const char* stop = at_;
  while (stop != end_ && *stop != '\n' && *stop != ' ' && *stop != '\r') ++stop;
  if (stop == at_) return "the end of the line";
  return shown({at_, stop});
}

std::string Scanner::shown(std::string_view text) {
  constexpr std::size_t kMaxShown = 40;
  std::string result = "\"";
  for (const char c : text.substr(0, kMaxShown)) {
    const bool printable = static_cast<unsigned char>(c) >= 0x20 && c != 0x7f;
    result += printable ? c : '?';
  }
  return result + (text.size() > kMaxShown ? "…\"" : "\"");
}

std::string Scanner::suggestion(std::string_view name, const std::vector<std::string>& names) {
  if (name.size() > kMaxComparedLength) return {};
  std::vector<std::string> candidates;
  for (const std::string& candidate : names) {
    if (candidates.size() == kMaxCandidates) break;
    if (candidate.size() <= kMaxComparedLength) candidates.push_back(candidate);
  }
  const std::string close = nearest(name, candidates);
  return close.empty() ? std::string{} : "; did you mean " + shown(close) + "?";
}

}  // namespace lockstep::text
