#include "gui/draw/wrapped_text.hpp"

#include <sstream>

namespace lockstep::gui {

std::vector<std::string> wrap(const std::string& words, double width, int lines,
                              const TextSize& text) {
  std::vector<std::string> out;
  if (lines < 1) return out;
  std::istringstream in(words);
  std::string line;
  for (std::string word; in >> word;) {
    const std::string longer = line.empty() ? word : line + " " + word;
    if (line.empty() || text.width_of(longer) <= width) {
      line = longer;
      continue;
    }
    if (static_cast<int>(out.size()) + 1 == lines) {
      out.push_back(line + " …");
      return out;
    }
    out.push_back(line);
    line = word;
  }
  if (!line.empty()) out.push_back(line);
  return out;
}

void write_hint(DisplayList& list, QRectF rect, const std::string& words, const TextSize& text) {
  constexpr int kMostLines = 6;
  const auto lines = wrap(words, rect.width() - 8, kMostLines, text);
  double y = rect.center().y() - text.line_height * static_cast<double>(lines.size()) / 2;
  for (const std::string& line : lines) {
    list.text({rect.x(), y, rect.width(), text.line_height}, line, Ink::Faint, Align::Center);
    y += text.line_height;
  }
}

}  // namespace lockstep::gui
