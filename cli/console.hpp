// Console: the streams to which a command writes, and what they can do.
#pragma once

#include <atomic>
#include <ostream>
#include <streambuf>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "core/format/table.hpp"

namespace lockstep {

/// The width of what is neither on a terminal nor under COLUMNS.
inline constexpr int kUsualWidth = 100;

struct Console {
  std::ostream& out;        // results
  std::ostream& err;        // errors and progress
  int width = kUsualWidth;  // characters of a line of `out`
  bool live = false;        // `err` is a terminal, so that a status line may rewrite itself
  bool color = false;       // of what is written to `err`
  const std::atomic<bool>* cancel = nullptr;  // once it is true, a run stops after its step
  int err_width = kUsualWidth;                // characters of a line of `err`
  bool out_color = false;                     // of what is written to `out`
  bool wide = false;                          // --wide: tables of any width
  bool json = false;  // --json: errors, warnings and notes are lines of JSON

  Screen screen() const { return {wide ? 0 : width, out_color}; }
};

/// When to colour: --color.
enum class Color { Auto, Always, Never };
/// The same console, coloured so. `Auto` leaves it as it is.
void set_color(Console& console, Color color);

/// The text without what a terminal would obey: names in it may come from any file.
std::string printable(const std::string& text);

/// Passes printable() of everything on to another buffer, which must outlive it; Emphasis passes as
/// it is.
class PrintableBuffer final : public std::streambuf {
 public:
  explicit PrintableBuffer(std::streambuf& to) : to_(to) {}

 protected:
  int_type overflow(int_type c) override;
  int sync() override;

 private:
  bool put(char c);
  bool give_up();  // what is held is no Emphasis

  std::streambuf& to_;
  char before_ = '\0';
  std::string held_;  // the beginning of what may be Emphasis
};

/// Passes everything on to a terminal and keeps one status line, which show_status() writes, below
/// all other lines: these take its place, and it comes back when they end.
class StatusBuffer final : public std::streambuf {
 public:
  explicit StatusBuffer(std::streambuf& to) : to_(to) {}

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;
  int sync() override { return to_.pubsync(); }

 private:
  std::streambuf& to_;
  std::string status_;   // what show_status() wrote; empty: no line
  bool inside_ = false;  // another line is being written
};

/// Writes the status line, or removes it if the text is empty; cut to the width of the terminal.
/// Does nothing where there is none (Console::live).
void show_status(const Console& console, const std::string& text);
/// Leaves the status line where it is, as a line like others.
void keep_status(const Console& console);

/// The process's own streams; results are made printable. Width, live and color
/// follow from what they are connected to, and from COLUMNS, NO_COLOR and TERM.
Console standard_console();

/// Prints "error: file:line:column: message" for each error, and returns the exit code of the
/// first. With Console::json each is a line {"level": "error", "message": …, "file": …, …}, and so
/// are warnings and notes.
int report_errors(const Console& console, const std::vector<Error>& errors);
/// Prints "warning: file:line:column: message" for each warning.
void report_warnings(const Console& console, const std::vector<Error>& warnings);
/// Prints "note: text".
void report_note(const Console& console, const std::string& text);
int report_error(const Console& console, const Error& error);

}  // namespace lockstep
