// Figures of a page: read, calculated from a report, written in the style that they had.
#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <cstdio>
#include <regex>
#include <stdexcept>

#include "tests/docs/page.hpp"

namespace lockstep::test {
namespace {

struct Unit {
  const char* name;
  double size;
};
constexpr std::array kUnits = {
    Unit{"s", 1},           Unit{"ms", 1e-3},          Unit{"us", 1e-6},
    Unit{"µs", 1e-6},       Unit{"%", 1e-2},           Unit{"KiB", 1024.0},
    Unit{"MiB", 1048576.0}, Unit{"GiB", 1073741824.0}, Unit{"MB", 1e6},
    Unit{"GB", 1e9},        Unit{"TB", 1e12},          Unit{"M", 1e6},
    Unit{"B", 1e9},         Unit{"million", 1e6},      Unit{"billion", 1e9},
    Unit{"TFLOP", 1e12},    Unit{"PFLOP", 1e15},       Unit{"years", 31557600.0},
    Unit{"tok/ms", 1e3},    Unit{"img/s", 1}};

double size_of(const std::string& unit) {
  const std::string name = unit.starts_with(" ") ? unit.substr(1) : unit;
  if (name.empty()) return 1;
  return std::find_if(kUnits.begin(), kUnits.end(), [&](const Unit& u) { return name == u.name; })
      ->size;
}

double value_of(const std::string& key, const nlohmann::json& report) {
  if (key.find_first_not_of("0123456789.e+") == std::string::npos) return std::stod(key);
  const nlohmann::json* at = &report;
  std::size_t begin = 0;
  while (begin <= key.size()) {
    const std::size_t end = std::min(key.find('.', begin), key.size());
    const std::string part = key.substr(begin, end - begin);
    begin = end + 1;
    // A sweep is a list of points, each with its report: the first, unless the figure says another.
    if (at == &report && at->is_array() && !std::isdigit(static_cast<unsigned char>(part[0]))) {
      at = &at->at(0);
    }
    if (at->is_object() && !at->contains(part) && at->contains("report")) at = &at->at("report");
    if (at->is_array() && (part == "max" || part == "min" || part == "sum")) {
      double found = part == "sum" ? 0 : at->at(0).get<double>();
      for (const auto& element : *at) {
        const auto value = element.get<double>();
        found = part == "max"   ? std::max(found, value)
                : part == "min" ? std::min(found, value)
                                : found + value;
      }
      return found;
    }
    const bool index = at->is_array() && std::isdigit(static_cast<unsigned char>(part[0])) != 0;
    if (index && std::stoul(part) < at->size()) {
      at = &at->at(std::stoul(part));
    } else if (at->is_object() && at->contains(part)) {
      at = &at->at(part);
    } else {
      throw std::runtime_error("the output has no '" + key + "' (nothing at '" + part + "')");
    }
  }
  if (!at->is_number()) throw std::runtime_error("'" + key + "' is not a number");
  return at->get<double>();
}

}  // namespace

double evaluate(const std::string& expression, const nlohmann::json& report) {
  static const std::regex operation(R"( *([*/]| [-+] ) *)");
  double value = 0;
  char next = '+';
  std::sregex_iterator at(expression.begin(), expression.end(), operation), end;
  std::size_t begin = 0;
  for (;; ++at) {
    const std::size_t stop = at == end ? expression.size() : std::size_t(at->position());
    const double term = value_of(expression.substr(begin, stop - begin), report);
    value = next == '+'   ? value + term
            : next == '-' ? value - term
            : next == '*' ? value * term
                          : value / term;
    if (at == end) return value;
    begin = stop + at->length();
    const std::string sign = (*at)[1];
    next = sign[sign.find_first_not_of(' ')];
  }
}

ShownFigure figure_at_end(const std::string& text) {
  static const std::regex figure(
      R"(([+-]|−|)(\d[\d,]*(?:\.\d+)?)( ?(?:s|ms|us|µs|%|KiB|MiB|GiB|MB|GB|TB|M|B|million|billion|TFLOP|PFLOP|years|tok/ms|img/s))?$)");
  std::smatch found;
  const std::string end = text.substr(text.size() - std::min<std::size_t>(text.size(), 40));
  if (!std::regex_search(end, found, figure)) return {};
  // The last comma of a sentence is not part of a figure.
  return {found[1], found[2], found[3]};
}

std::string in_style_of(const ShownFigure& shown, double value) {
  const std::size_t point = shown.digits.find('.');
  const int decimals = point == std::string::npos ? 0 : int(shown.digits.size() - point) - 1;
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.*f", decimals, std::abs(value / size_of(shown.unit)));
  std::string digits = text.data();
  const std::string whole = shown.digits.substr(0, point);
  const bool commas = whole.find(',') != std::string::npos || whole.size() < 4;
  const std::size_t length = std::min(digits.find('.'), digits.size());
  if (commas && length > 3) {
    for (std::size_t i = length - 3; i > 0 && i<length; i = i> 3 ? i - 3 : 0) {
      digits.insert(i, ",");
    }
  }
  const std::string minus = shown.sign == "-" ? "-" : "−";
  const std::string sign = value < 0 ? minus : shown.sign.empty() ? "" : "+";
  return sign + digits + shown.unit;
}

}  // namespace lockstep::test
