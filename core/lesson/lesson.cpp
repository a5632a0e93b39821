#include "core/lesson/lesson.hpp"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/base/read_file.hpp"

namespace lockstep {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kQuestions = "## Questions";
constexpr std::string_view kQuestion = "### ";

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(" \n");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \n") - begin + 1);
}

/// "scenario: x.toml" gives "x.toml"; empty if the line does not begin with the key.
std::string value_of(const std::string& line, const std::string& key) {
  return line.starts_with(key + ": ") ? line.substr(key.size() + 2) : "";
}

/// Links of the application as words for a reader who has none: "[words](set:a=b)" becomes "words
/// (`--set a=b`)", any other "[words](play:)" becomes "words".
std::string without_actions(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t middle = text[i] == '[' ? text.find("](", i) : std::string::npos;
    const std::size_t end = middle == std::string::npos ? middle : text.find(')', middle);
    const std::string target =
        end == std::string::npos ? "" : text.substr(middle + 2, end - middle - 2);
    const std::size_t colon = target.find(':');
    const std::string action = colon == std::string::npos ? "" : target.substr(0, colon);
    if (action != "set" && action != "view" && action != "play" && action != "at") {
      out += text[i++];
      continue;
    }
    out += text.substr(i + 1, middle - i - 1);
    if (action == "set" && target.size() > 4) {
      std::string words = target.substr(colon + 1);
      for (std::size_t at = 0; (at = words.find('&', at)) != std::string::npos;) {
        words.replace(at, 1, " --set ");
      }
      out += " (`--set " + words + "`)";
    }
    i = end + 1;
  }
  return out;
}

}  // namespace

Result<Lesson> read_lesson(const std::string& file) {
  std::ifstream in = open_file(file);
  if (!in) return invalid(file + ": cannot be read");
  Lesson lesson;
  lesson.file = file;
  lesson.name = fs::path(file).stem().string();
  int number = 0;
  const auto missing = [&](const char* what) {
    return Error{ErrorKind::InvalidSpec, std::string("expected '") + what + "'",
                 SourceSpan{file, number, 1}};
  };
  std::string line;
  const auto next = [&] {
    ++number;
    line.clear();
    std::getline(in, line);
  };
  next();
  if (!line.starts_with("# ")) return missing("# TITLE");
  lesson.title = line.substr(2);
  next();
  const std::string scenario = value_of(line, "scenario");
  if (scenario.empty()) return missing("scenario: FILE.toml");
  lesson.scenario = (fs::path(file).parent_path() / scenario).lexically_normal().string();
  next();
  std::istringstream picture(value_of(line, "picture"));
  if (!(picture >> lesson.view >> lesson.at)) return missing("picture: VIEW NN%");
  lesson.first_line = number + 1;
  std::ostringstream rest;
  rest << in.rdbuf();
  lesson.text = rest.str();
  return lesson;
}

Result<std::vector<Lesson>> read_course(const std::string& folder) {
  std::vector<std::string> files;
  std::error_code absent;
  for (const auto& entry : fs::directory_iterator(folder, absent)) {
    if (entry.path().extension() == ".md") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  std::vector<Lesson> course;
  for (const std::string& file : files) {
    Result<Lesson> lesson = read_lesson(file);
    if (!lesson) return lesson.error();
    course.push_back(std::move(*lesson));
  }
  return course;
}

LessonParts lesson_parts(const std::string& text) {
  LessonParts parts;
  std::string* into = &parts.before;
  bool questions = false;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    if (line == kQuestions) {
      questions = true;
    } else if (questions && line.starts_with(kQuestion)) {
      parts.questions.push_back({line.substr(kQuestion.size()), ""});
      into = &parts.questions.back().answer;
    } else {
      *into += line + "\n";
    }
  }
  parts.before = trimmed(parts.before);
  for (Question& question : parts.questions) question.answer = trimmed(question.answer);
  return parts;
}

std::string lesson_markdown(const Lesson& lesson, const std::string& filled,
                            const std::string& picture) {
  const LessonParts parts = lesson_parts(without_actions(filled));
  std::string out = "# " + lesson.title + "\n\n";
  if (!picture.empty()) out += "![" + lesson.title + "](" + picture + ")\n\n";
  out += parts.before + "\n";
  if (!parts.questions.empty()) out += "\n" + std::string(kQuestions) + "\n";
  for (const Question& question : parts.questions) {
    out += "\n<details>\n<summary>" + question.question + "</summary>\n\n" + question.answer +
           "\n\n</details>\n";
  }
  return out;
}

}  // namespace lockstep
