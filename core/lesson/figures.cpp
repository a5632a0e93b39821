// The figures of a lesson's page: placeholders, and what the simulator puts in their places.
#include <cmath>
#include <map>
#include <sstream>

#include "core/analysis/expectations.hpp"
#include "core/format/format.hpp"
#include "core/lesson/lesson.hpp"
#include "core/scenario/scenario_file.hpp"

namespace lockstep {
namespace {

struct Figure {
  std::string key, unit;
  std::vector<std::string> set;
};

/// Reads "bubble_fraction %; a.b=1; c.d=2".
Figure parse_figure(const std::string& text) {
  Figure figure;
  std::istringstream parts(text);
  std::string part;
  std::getline(parts, part, ';');
  std::istringstream(part) >> figure.key >> figure.unit;
  while (std::getline(parts, part, ';')) {
    figure.set.push_back(part.substr(std::min(part.find_first_not_of(' '), part.size())));
  }
  return figure;
}

/// A factor as people say it, with three digits: "1.27", "12.3", "105".
std::string factor_text(double factor) {
  std::ostringstream out;
  out.precision(3);
  out << factor;
  return out.str();
}

/// The simulations of a page, each of which is made once.
class Reports {
 public:
  Reports(const Lesson& lesson, const SimulateLesson& simulate)
      : lesson_(lesson), simulate_(simulate) {}

  Result<double> value(const std::string& key, const std::vector<std::string>& set) {
    const auto found = reports_.find(set);
    if (found != reports_.end()) return report_figure(found->second, key);
    const LoadedScenario loaded = load_scenario(lesson_.scenario, set);
    if (!loaded.ok()) return loaded.errors.front();
    Result<Report> report = simulate_(loaded.points.front().scenario);
    if (!report) return report.error();
    return report_figure(reports_.emplace(set, std::move(*report)).first->second, key);
  }

 private:
  const Lesson& lesson_;
  const SimulateLesson& simulate_;
  std::map<std::vector<std::string>, Report> reports_;
};

Result<std::string> text_of_figure(const Figure& figure, Reports& reports) {
  const Result<double> value = reports.value(figure.key, figure.set);
  if (!value) return value.error();
  if (figure.unit == "%") return percent_text(*value);
  if (figure.unit == "s") return time_text(Seconds{*value});
  if (figure.unit == "B") return bytes_text(Bytes{std::llround(*value)});
  if (figure.unit == "n") return count_text(*value);
  if (figure.unit != "x") {
    return invalid("'" + figure.unit + "' is no way to write a figure; there are %, s, B, n and x");
  }
  const Result<double> before = reports.value(figure.key, {});
  if (!before) return before.error();
  return factor_text(*value / *before);
}

}  // namespace

Result<std::string> fill_in(const Lesson& lesson, const SimulateLesson& simulate) {
  Reports reports(lesson, simulate);
  std::string out;
  int line = lesson.first_line;
  const std::string& text = lesson.text;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\n') ++line;
    const std::size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
    if (end == std::string::npos) {
      out += text[i];
      continue;
    }
    const Result<std::string> words =
        text_of_figure(parse_figure(text.substr(i + 1, end - i - 1)), reports);
    if (!words) {
      Error error = words.error();
      if (!error.where) error.where = SourceSpan{lesson.file, line, 1};
      return error;
    }
    out += *words;
    i = end;
  }
  return out;
}

std::string without_figures(const std::string& text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t end = text[i] == '{' ? text.find('}', i) : std::string::npos;
    out += end == std::string::npos ? std::string(1, text[i]) : "…";
    if (end != std::string::npos) i = end;
  }
  return out;
}

}  // namespace lockstep
