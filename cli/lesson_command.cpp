// lockstep lesson: prints a page of the course as Markdown, with the figures that the simulator
// has.
#include "backends/simulated_step.hpp"
#include "cli/commands.hpp"
#include "core/lesson/lesson.hpp"

namespace lockstep {

int lesson_command(const LessonArguments& arguments, const Console& console) {
  const Result<Lesson> lesson = read_lesson(arguments.page);
  if (!lesson) return report_error(console, lesson.error());
  const Result<std::string> text = fill_in(*lesson, simulated_step);
  if (!text) return report_error(console, text.error());
  console.out << lesson_markdown(*lesson, *text, arguments.picture);
  return 0;
}

}  // namespace lockstep
