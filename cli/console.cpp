#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr int kNarrowest = 40;
constexpr std::string_view kRewrite = "\r\033[K";  // to the beginning of the line, which is cleared

int width_of(int descriptor) {
  if (const char* columns = std::getenv("COLUMNS")) {
    const int width = std::atoi(columns);
    if (width >= kNarrowest) return width;
  }
  winsize size{};
  if (isatty(descriptor) && ioctl(descriptor, TIOCGWINSZ, &size) == 0 &&
      size.ws_col >= kNarrowest) {
    return size.ws_col;
  }
  return kUsualWidth;
}

/// The character after `before` as a terminal may see it: those that it would obey (C0, DEL, and C1
/// in UTF-8) become question marks, or dots where two bytes are one character.
char shown(char before, char c) {
  const auto code = static_cast<unsigned char>(c);
  const bool c1 = static_cast<unsigned char>(before) == 0xc2 && code >= 0x80 && code < 0xa0;
  if (c1) return '\xb7';
  return (code < 0x20 && c != '\n' && c != '\t') || code == 0x7f ? '?' : c;
}

std::string_view kind_of(ErrorKind kind) {
  switch (kind) {
    case ErrorKind::Parse:
      return "parse";
    case ErrorKind::InvalidSpec:
      return "invalid";
    case ErrorKind::Unsupported:
      return "unsupported";
    case ErrorKind::OutOfMemory:
      return "out_of_memory";
    case ErrorKind::Device:
      return "device";
    case ErrorKind::Expectation:
      return "expectation";
    case ErrorKind::Internal:
      return "internal";
  }
  return "";
}

struct Level {
  const char *name, *color;
};
constexpr Level kError = {"error", "\033[1;31m"}, kWarning = {"warning", "\033[1;33m"},
                kNote = {"note", "\033[1;36m"};

/// In one piece, because other processes may write to the same terminal.
void say(const Console& console, const Level& level, const std::string& text) {
  const std::string head = std::string(level.name) + ":";
  console.err << (console.color ? level.color + head + "\033[0m" : head) + " " + printable(text) +
                     "\n";
}

void say(const Console& console, const Level& level, const Error& error) {
  if (!console.json) return say(console, level, to_string(error));
  nlohmann::ordered_json line = {
      {"level", level.name}, {"kind", kind_of(error.kind)}, {"message", error.message}};
  if (error.where) {
    line["file"] = error.where->file;
    if (error.where->line > 0) line["line"] = error.where->line;
    if (error.where->column > 0) line["column"] = error.where->column;
  }
  console.err << line.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

/// The first `width` characters.
std::string cut(const std::string& text, int width) {
  std::string result;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xC0) != 0x80;
    if (begins && width-- == 0) break;
    result += c;
  }
  return result;
}

}  // namespace

void set_color(Console& console, Color color) {
  if (color != Color::Auto) console.color = console.out_color = color == Color::Always;
}

std::string printable(const std::string& text) {
  std::string result;
  char before = '\0';
  for (const char c : text) result += shown(std::exchange(before, c), c);
  return result;
}

bool PrintableBuffer::put(char c) {
  return !traits_type::eq_int_type(to_.sputc(shown(std::exchange(before_, c), c)),
                                   traits_type::eof());
}

bool PrintableBuffer::give_up() {
  const std::string held = std::exchange(held_, "");
  return std::all_of(held.begin(), held.end(), [&](char c) { return put(c); });
}

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char own = traits_type::to_char_type(c);
  const int_type failed = traits_type::eof();
  if (own == '\033') {
    if (!give_up()) return failed;
    held_ = own;
    return c;
  }
  if (held_.empty()) return put(own) ? c : failed;
  held_ += own;
  bool may_be = false;
  for (const std::string_view emphasis : {Emphasis::kBold, Emphasis::kName, Emphasis::kPlain}) {
    if (held_ == emphasis) {
      held_.clear();
      const auto size = static_cast<std::streamsize>(emphasis.size());
      return to_.sputn(emphasis.data(), size) == size ? c : failed;
    }
    may_be = may_be || emphasis.starts_with(held_);
  }
  return may_be || give_up() ? c : failed;
}

int PrintableBuffer::sync() { return give_up() ? to_.pubsync() : -1; }

StatusBuffer::int_type StatusBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char own = traits_type::to_char_type(c);
  return xsputn(&own, 1) == 1 ? c : traits_type::eof();
}

std::streamsize StatusBuffer::xsputn(const char* text, std::streamsize size) {
  const std::string_view own(text, static_cast<std::size_t>(size));
  std::string all(own);
  if (own.starts_with(kRewrite)) {
    status_ = own.substr(kRewrite.size());
    if (inside_) return size;  // it comes when the other line ends
  } else if (own == "\n" && !inside_) {
    status_.clear();  // which stays where it is
  } else {
    if (!inside_ && !status_.empty()) all.insert(0, kRewrite);
    inside_ = !own.ends_with('\n');
    if (!inside_ && !status_.empty()) all += std::string(kRewrite) + status_;
  }
  const auto whole = static_cast<std::streamsize>(all.size());
  return to_.sputn(all.data(), whole) == whole ? size : 0;
}

void show_status(const Console& console, const std::string& text) {
  if (!console.live) return;
  // A line as long as the terminal is wide would begin the next one.
  console.err << std::string(kRewrite) + cut(printable(text), console.err_width - 1) << std::flush;
}

void keep_status(const Console& console) {
  if (console.live) console.err << "\n" << std::flush;
}

Console standard_console() {
  // A pipe may end on a terminal, too.
  static PrintableBuffer printed(*std::cout.rdbuf());
  static std::ostream results(&printed);
  static StatusBuffer status(*std::cerr.rdbuf());
  static std::ostream messages(&status);
  messages.setf(std::ios::unitbuf);
  const bool shown = isatty(STDOUT_FILENO), live = isatty(STDERR_FILENO);
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  const char* no_color = std::getenv("NO_COLOR");  // no colors if set and not empty (no-color.org)
  const bool colored = !dumb && (no_color == nullptr || *no_color == '\0');
  Console console{results, live && !dumb ? messages : std::cerr};
  console.width = width_of(STDOUT_FILENO);
  console.err_width = width_of(STDERR_FILENO);
  console.live = live && !dumb;
  console.color = live && colored;
  console.out_color = shown && colored;
  return console;
}

int report_errors(const Console& console, const std::vector<Error>& errors) {
  for (const Error& error : errors) say(console, kError, error);
  return errors.empty() ? 0 : exit_code(errors.front().kind);
}

void report_warnings(const Console& console, const std::vector<Error>& warnings) {
  for (const Error& warning : warnings) say(console, kWarning, warning);
}

void report_note(const Console& console, const std::string& text) {
  if (!console.json) return say(console, kNote, text);
  console.err << nlohmann::ordered_json({{"level", "note"}, {"message", text}})
                         .dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) +
                     "\n";
}

int report_error(const Console& console, const Error& error) {
  return report_errors(console, {error});
}

}  // namespace lockstep
