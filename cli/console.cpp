#include "cli/console.hpp"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>
#include <iostream>
#include <string_view>

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

/// The text without what a terminal would obey: names in a message may come from any file.
std::string printable(std::string text) {
  for (char& c : text) {
    const auto code = static_cast<unsigned char>(c);
    if ((code < 0x20 && c != '\n' && c != '\t') || code == 0x7f) c = '?';
  }
  return text;
}

}  // namespace

Console standard_console() {
  Console console{std::cout, std::cerr};
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

int report_error(const Console& console, const Error& error) {
  return report_errors(console, {error});
}

}  // namespace lockstep
