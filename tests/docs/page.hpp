// Page: a document whose commands are run, and whose outputs and figures are what they print.
//
//   ```sh                        Commands, run in the order of the page in a copy of the
//                                repository.
//   lockstep run a.toml          The exit code is 0 unless a comment says another: "# exit code 5".
//   ```
//   ```output 1,3                What the last command prints, here the paragraphs 1 and 3 of it.
//   ```
//   ```sh needs=gpu              Not run, but checked: the command, its options, the script, the
//   target.
//   ```toml plan.toml            A file of this name, for the commands below. So are json, csv,
//   txt.
//   <!--sh                       Commands that no reader needs to see.
//   <!--run-->                   The commands in the cells of the table below are run, too.
//
//   <!--of run a.toml-->         Figures below are of the JSON of this command.
//   | 8 <!--with a.b=8--> | …    Those of this line are of the command with these overrides.
//   takes 41.5 s<!--=step_time_s; a.b=4-->   A figure, and what it is. It keeps its decimals and
//   unit.
//
// A figure is an expression of keys and numbers, calculated from the left:
// exposed_comm_s/step_time_s. A unit beside the figure (s, ms, GiB, %, …) scales it. "x KEY; a.b=4"
// is the factor by which the overrides of the figure change it, "+ KEY; a.b=4" by which part.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/console.hpp"

namespace lockstep::test {

struct RenderedPage {
  std::string text;                   // the page, with what its commands print now
  std::vector<std::string> faults;    // "docs/a.md:12: …"
  std::vector<std::string> commands;  // "exit code 0  0.1 s  lockstep …", in their order
  std::vector<std::string> wide;      // commands that print tables wider than the screen
};

/// Runs the commands of a page in the working folder, which has the files of the repository, on a
/// screen of so many columns.
RenderedPage render(const std::string& name, const std::string& text, int width = kUsualWidth);

/// The words of a command line, without quotation marks. Stops at a comment.
std::vector<std::string> words_of(const std::string& line);

/// The paragraphs of an output that `selection` names ("1,3-4"; empty: all), with a line "…" where
/// some are left out.
std::string select_paragraphs(const std::string& output, const std::string& selection);

/// A figure as a page shows it, "1,234.5 ms", divided.
struct ShownFigure {
  std::string sign, digits, unit;  // "", "1,234.5", " ms"
};
/// The figure that ends a text; without digits if none does.
ShownFigure figure_at_end(const std::string& text);

/// A value in the style of a figure: its decimals, its commas, its sign, its unit.
std::string in_style_of(const ShownFigure& shown, double value);

/// The value of a figure's expression. Throws std::runtime_error that says what is missing.
double evaluate(const std::string& expression, const nlohmann::json& report);

}  // namespace lockstep::test
