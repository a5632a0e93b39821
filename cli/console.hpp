// Console: the streams to which a command writes, and what they can do.
#pragma once

#include <atomic>
#include <ostream>
#include <streambuf>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

struct Console {
  std::ostream& out;   // results
  std::ostream& err;   // errors and progress
  int width = 100;     // characters of a line of `out`
  bool live = false;   // `err` is a terminal, so that a progress line may rewrite itself
  bool color = false;  // `err` is a terminal and NO_COLOR is not set
  const std::atomic<bool>* cancel = nullptr;  // once it is true, a run stops after its step
};

/// The text without what a terminal would obey: names in it may come from any file.
std::string printable(const std::string& text);

/// Passes printable() of everything on to another buffer, which must outlive it.
class PrintableBuffer final : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf& to) : to_(to) {}

 protected:
  int_type overflow(int_type c) override;
  int sync() override { return to_.pubsync(); }

 private:
  std::streambuf& to_;
  char before_ = '\0';
};

/// The process's own streams; results on a terminal are made printable. Width, live and color
/// follow from what they are connected to, and from COLUMNS, NO_COLOR and TERM.
Console standard_console();

/// Prints "error: file:line:column: message" for each error, and returns the exit code of the
/// first.
int report_errors(const Console& console, const std::vector<Error>& errors);
/// Prints "warning: file:line:column: message" for each warning.
void report_warnings(const Console& console, const std::vector<Error>& warnings);
/// Prints "note: text".
void report_note(const Console& console, const std::string& text);
int report_error(const Console& console, const Error& error);

}  // namespace lockstep
