// lockstep lesson: prints a page of the course as Markdown, with the figures that the simulator
// has.
#include <algorithm>
#include <filesystem>

#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/format/table.hpp"
#include "core/lesson/lesson.hpp"
#include "core/scenario/shipped.hpp"
#include "core/session/simulation.hpp"

namespace lockstep {
namespace {

Result<std::vector<Lesson>> shipped_course() {
  const std::filesystem::path scenarios = shipped_scenarios();
  if (scenarios.empty()) {
    return invalid(
        "no shipped course beside this executable or above this folder: run it in a "
        "clone of the repository, or name a page's file");
  }
  return read_course((scenarios / "course").string());
}

/// The page of a file, or of a number of the shipped course.
Result<Lesson> lesson_of(const std::string& page) {
  const bool number = page.size() <= 3 && std::all_of(page.begin(), page.end(),
                                                      [](char c) { return c >= '0' && c <= '9'; });
  if (!number || std::filesystem::exists(page)) return read_lesson(page);
  Result<std::vector<Lesson>> course = shipped_course();
  if (!course) return course.error();
  const std::size_t i = std::stoul(page);
  if (i < 1 || i > course->size()) {
    return invalid("lesson " + page + ": the course has pages 1 to " +
                   std::to_string(course->size()));
  }
  return std::move((*course)[i - 1]);
}

int list_course(const LessonArguments& arguments, const Console& console) {
  const Result<std::vector<Lesson>> course = shipped_course();
  if (!course) return report_error(console, course.error());
  TextTable table({"lesson", Heading::words("title"), Heading::words("scenario")}, 0);
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < course->size(); ++i) {
    const Lesson& lesson = (*course)[i];
    const std::string scenario = std::filesystem::path(lesson.scenario)
                                     .lexically_proximate(std::filesystem::current_path())
                                     .string();
    table.add({std::to_string(i + 1), lesson.title, scenario});
    json.push_back({{"lesson", i + 1}, {"title", lesson.title}, {"scenario", scenario}});
  }
  console.out << (arguments.json ? json_text(json) : table.text(console.screen()));
  return 0;
}

}  // namespace

int lesson_command(const LessonArguments& arguments, const Console& console) {
  if (arguments.page.empty()) return list_course(arguments, console);
  const Result<Lesson> lesson = lesson_of(arguments.page);
  if (!lesson) return report_error(console, lesson.error());
  const Result<std::string> text = fill_in(*lesson, simulated_step);
  if (!text) return report_error(console, text.error());
  if (arguments.json) {
    const LessonParts parts = lesson_parts(*text);
    nlohmann::ordered_json questions = nlohmann::ordered_json::array();
    for (const Question& q : parts.questions) {
      questions.push_back({{"question", q.question}, {"answer", q.answer}});
    }
    console.out << json_text({{"name", lesson->name},
                              {"title", lesson->title},
                              {"scenario", lesson->scenario},
                              {"view", lesson->view},
                              {"text", parts.before},
                              {"questions", questions}});
    return 0;
  }
  console.out << lesson_markdown(*lesson, *text, arguments.picture);
  return 0;
}

}  // namespace lockstep
