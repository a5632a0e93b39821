// Console: where a command writes, and what the place can do.
#pragma once

#include <atomic>
#include <ostream>
#include <string>
#include <vector>

#include "core/base/result.hpp"

namespace lockstep {

struct Console {
  std::ostream& out;   // results
  std::ostream& err;   // errors, progress
  int width = 100;     // characters of a line of `out`
  bool live = false;   // `err` is a terminal: a progress line may rewrite itself
  bool color = false;  // `err` is a terminal and NO_COLOR is not set
  const std::atomic<bool>* cancel = nullptr;  // set: stop after the current step
};

/// The process's own streams; width, live and color by what they are connected to, COLUMNS,
/// NO_COLOR and TERM.
Console standard_console();

/// Prints "error: file:line:column: message" for each; the exit code of the first.
int report_errors(const Console& console, const std::vector<Error>& errors);
/// "warning: file:line:column: message" for each.
void report_warnings(const Console& console, const std::vector<Error>& warnings);
int report_error(const Console& console, const Error& error);

}  // namespace lockstep
