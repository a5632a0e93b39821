// Lesson: a page that teaches with a scenario: what to look at, what to try, and questions. The
// page's figures are placeholders, which the simulator fills in, so that no page can go stale.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "core/analysis/report.hpp"
#include "core/base/result.hpp"
#include "core/spec/scenario.hpp"

namespace lockstep {

/// A page of the course, from a Markdown file:
///
///   # The pipeline and its bubble
///   scenario: ../lessons/pipeline.toml
///   picture: play 12%
///
///   Words, with figures: ranks wait {bubble_fraction %} of the step, and with 16 microbatches
///   {bubble_fraction %; parallelism.pipeline_parallel_microbatches=16} of it.
///
///   ## Try
///   - [Sixteen microbatches](set:parallelism.pipeline_parallel_microbatches=16)
///
///   ## Questions
///   ### What is the bubble of p equal stages?
///   The answer.
///
/// A figure is a path into report.json, as in [expect], then how it is written, then overrides
/// under which it is simulated, each behind a semicolon. It is written as a percentage (%), a time
/// (s), bytes (B) or a number (n); or as the factor by which the overrides change it (x).
/// A link does something in the application: set:KEY=VALUE changes the scenario, view:NAME shows a
/// view, play: plays the step, at:NN% sets the cursor.
struct Lesson {
  std::string name;      // "04-pipeline", the file's name without its ending
  std::string file;      // for errors
  std::string title;     // "The pipeline and its bubble"
  std::string scenario;  // path of the scenario's file
  std::string view, at;  // what the picture of the page shows: "play", "12%"
  std::string text;      // Markdown below the head, as in the file
  int first_line = 1;    // the line of the file in which `text` begins
};

/// Reads a page. Error InvalidSpec for a file that cannot be read or a head that lacks a line.
Result<Lesson> read_lesson(const std::string& file);

/// The pages of a folder in the order of their names. Errors as read_lesson().
Result<std::vector<Lesson>> read_course(const std::string& folder);

/// How a scenario is simulated: simulated_step() of core/session.
using SimulateLesson = std::function<Result<Report>(const Scenario&)>;

/// The text with its figures. Every set of overrides is simulated once. The error for a figure
/// that is not there, or is not written as above, names its line; others are those of the scenario
/// and of `simulate`.
Result<std::string> fill_in(const Lesson& lesson, const SimulateLesson& simulate);

/// The text with "…" for every figure, while they are simulated.
std::string without_figures(const std::string& text);

struct Question {
  std::string question, answer;  // Markdown
};
/// A text that is filled in, divided into what stands before the questions, and these.
struct LessonParts {
  std::string before;
  std::vector<Question> questions;
};
LessonParts lesson_parts(const std::string& text);

/// The page as Markdown for reading without the application: answers fold, links that change the
/// scenario say the command line's words. `picture` is the path of its picture; empty: none.
std::string lesson_markdown(const Lesson& lesson, const std::string& filled,
                            const std::string& picture);

}  // namespace lockstep
