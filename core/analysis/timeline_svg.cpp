#include "core/analysis/timeline_svg.hpp"

#include <algorithm>
#include <array>
#include <cstdio>

#include "core/analysis/timeline_blocks.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep {
namespace {

constexpr int kLabels = 130, kTop = 8, kAxis = 26, kLegend = 24;  // px

struct Passes {
  char letter;
  const char* name;
  const char* colors[2];  // of the first virtual stage of a rank, and of others
};
// Okabe and Ito's palette, which colour-blind readers tell apart.
constexpr std::array<Passes, 7> kPasses = {{{'F', "forward", {"#56b4e9", "#0072b2"}},
                                            {'B', "backward", {"#7fcfb4", "#009e73"}},
                                            {'I', "backward for input", {"#f0c27a", "#e69f00"}},
                                            {'W', "backward for weights", {"#e8b0cf", "#cc79a7"}},
                                            {'R', "recomputation", {"#f0e442", "#d4c81e"}},
                                            {'O', "optimizer", {"#8c8c8c", "#8c8c8c"}},
                                            {'+', "other computation", {"#bbbbbb", "#bbbbbb"}}}};

std::string decimal(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.2f", value);
  return text;
}

/// Labels of traces from elsewhere may hold anything.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    result += c == '&' ? "&amp;" : c == '<' ? "&lt;" : std::string(1, c);
  }
  return result;
}

std::string text_at(double x, double y, const std::string& words, const char* more = "") {
  return "<text x=\"" + decimal(x) + "\" y=\"" + decimal(y) + "\"" + more + ">" + escaped(words) +
         "</text>\n";
}

std::string box(double x, double y, double width, double height, const char* color) {
  return "<rect x=\"" + decimal(x) + "\" y=\"" + decimal(y) + "\" width=\"" + decimal(width) +
         "\" height=\"" + decimal(height) + "\" fill=\"" + color + "\"/>\n";
}

const Passes& passes_of(char letter) {
  const auto at = std::find_if(kPasses.begin(), kPasses.end(),
                               [&](const Passes& p) { return p.letter == letter; });
  return at == kPasses.end() ? kPasses.back() : *at;
}

}  // namespace

std::string timeline_svg(const Trace& trace, const TimelinePicture& picture) {
  if (trace.spans.empty()) return "";
  const FirstStep step = first_step(trace);
  const double length =
      static_cast<double>(std::max<std::int64_t>(1, (step.last - step.first).count()));
  const auto x_of = [&](SimTime t) {
    return kLabels + static_cast<double>((t - step.first).count()) / length * picture.width;
  };
  std::string rows;
  std::array<bool, kPasses.size()> seen{};
  int drawn = 0, left_out = 0;
  for (const Spans::Run& run : trace.spans.of_first_step()) {
    if (drawn < picture.max_ranks) {
      const double y = kTop + drawn * picture.row;
      rows += text_at(kLabels - 8, y + picture.row * 0.65, trace.rank_labels[run.rank],
                      " text-anchor=\"end\"");
      rows += box(kLabels, y, picture.width, picture.row - 2, "#f2f2f2");
      std::int32_t first_stage = -1;
      for (const TimelineBlock& b :
           timeline_blocks(trace, run, SimTime{static_cast<std::int64_t>(length / 1e4) + 1})) {
        const Passes& passes = passes_of(b.letter);
        seen[static_cast<std::size_t>(&passes - kPasses.data())] = true;
        if (first_stage < 0) first_stage = b.stage;
        const double x = x_of(b.begin), width = x_of(b.end) - x;
        rows += box(x, y, std::max(0.3, width - 0.7), picture.row - 2,
                    passes.colors[b.stage == first_stage || b.stage < 0 ? 0 : 1]);
        const std::string number = b.microbatch < 0 ? "" : std::to_string(b.microbatch);
        if (!number.empty() && width > 7.0 * static_cast<double>(number.size()) + 4) {
          rows += text_at(x + width / 2, y + picture.row * 0.65, number, " text-anchor=\"middle\"");
        }
      }
      ++drawn;
    } else {
      ++left_out;
    }
  }
  double y = kTop + drawn * picture.row + 14;
  rows += text_at(kLabels, y, "0");
  rows += text_at(kLabels + picture.width, y, timeline_time(step.last - step.first),
                  " text-anchor=\"end\"");
  y += kAxis;
  double x = kLabels;
  for (std::size_t i = 0; i < kPasses.size(); ++i) {
    if (!seen[i]) continue;
    rows += box(x, y - 10, 12, 12, kPasses[i].colors[0]);
    rows += text_at(x + 17, y, kPasses[i].name);
    constexpr double kLetter = 7;
    x += 40 + kLetter * static_cast<double>(std::string(kPasses[i].name).size());
  }
  std::string remark = left_out > 0 ? std::to_string(left_out) + " more ranks are not drawn. " : "";
  remark += twins_remark(trace);
  if (!remark.empty()) rows += text_at(kLabels, y += kLegend, remark.substr(0, remark.find('\n')));
  const std::string size = "width=\"" + std::to_string(kLabels + picture.width + 10) +
                           "\" height=\"" + decimal(y + 10) + "\"";
  return "<svg xmlns=\"http://www.w3.org/2000/svg\" " + size +
         " font-family=\"sans-serif\" font-size=\"12\">\n" +
         box(0, 0, kLabels + picture.width + 10, y + 10, "#ffffff") + rows + "</svg>\n";
}

}  // namespace lockstep
