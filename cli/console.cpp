#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>
#include <utility>

namespace lockstep {
namespace {

constexpr int kDefaultWidth = 100;
constexpr int kNarrowest = 40;

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
  return kDefaultWidth;
}

/// The character after `before` as a terminal may see it: those that it would obey (C0, DEL, and C1
/// in UTF-8) become question marks.
char shown(char before, char c) {
  const auto code = static_cast<unsigned char>(c);
  const bool c1 = static_cast<unsigned char>(before) == 0xc2 && code >= 0x80 && code < 0xa0;
  return (code < 0x20 && c != '\n' && c != '\t') || code == 0x7f || c1 ? '?' : c;
}

}  // namespace

PrintableBuffer::int_type PrintableBuffer::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char own = traits_type::to_char_type(c);
  return to_.sputc(shown(std::exchange(before_, own), own));
}

std::string printable(const std::string& text) {
  std::string result;
  char before = '\0';
  for (const char c : text) result += shown(std::exchange(before, c), c);
  return result;
}

Console standard_console() {
  // A file or a pipe gets the bytes as they are.
  static PrintableBuffer buffer(*std::cout.rdbuf());
  static std::ostream terminal(&buffer);
  Console console{isatty(STDOUT_FILENO) ? terminal : std::cout, std::cerr};
  console.width = width_of(STDOUT_FILENO);
  const char* term = std::getenv("TERM");
  const bool dumb = term != nullptr && std::string_view(term) == "dumb";
  const char* no_color = std::getenv("NO_COLOR");  // no colors if set and not empty (no-color.org)
  console.live = isatty(STDERR_FILENO) && !dumb;
  console.color = console.live && (no_color == nullptr || *no_color == '\0');
  return console;
}

int report_errors(const Console& console, const std::vector<Error>& errors) {
  for (const Error& error : errors) {
    console.err << (console.color ? "\033[1;31merror:\033[0m " : "error: ")
                << printable(to_string(error)) << "\n";
  }
  return errors.empty() ? 0 : exit_code(errors.front().kind);
}

void report_warnings(const Console& console, const std::vector<Error>& warnings) {
  for (const Error& warning : warnings) {
    console.err << (console.color ? "\033[1;33mwarning:\033[0m " : "warning: ")
                << printable(to_string(warning)) << "\n";
  }
}

void report_note(const Console& console, const std::string& text) {
  console.err << "note: " << printable(text) << "\n";
}

int report_error(const Console& console, const Error& error) {
  return report_errors(console, {error});
}

}  // namespace lockstep
