// lockstep lesson: prints a page of the course as Markdown, with the figures that the simulator
// has.
#include "backends/simulated_step.hpp"
#include "cli/commands.hpp"
#include "cli/json_text.hpp"
#include "core/lesson/lesson.hpp"

namespace lockstep {

int lesson_command(const LessonArguments& arguments, const Console& console) {
  const Result<Lesson> lesson = read_lesson(arguments.page);
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
