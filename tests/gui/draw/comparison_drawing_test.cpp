#include "gui/draw/comparison_drawing.hpp"

#include <algorithm>

#include "gui/draw/breakdown_drawing.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

/// The sum of the widths of the boxes in a row of the picture.
double width_in(const DisplayList& list, const QRectF& row) {
  double width = 0;
  for (const Fill& f : list.fills) {
    if (std::abs(f.y - row.y()) < 0.01 && std::abs(f.height - row.height()) < 0.01) {
      width += f.width;
    }
  }
  return width;
}

TEST_CASE("two steps stand on one axis: their bars are as long as their times", "[gui][draw]") {
  ComparisonModel model;
  model.step_a = {4e-3};
  model.step_b = {3e-3};
  model.parts_a = {Seconds{2e-3}, {}, Seconds{1e-3}, {}, Seconds{1e-3}};
  model.parts_b = {Seconds{2e-3}, Seconds{1e-3}, {}, {}, {}};
  const TextSize text;
  const DisplayList list = draw_comparison(model, 900, text);
  const ComparisonFrame frame = ComparisonFrame::fitting(900, text);
  CHECK(width_in(list, frame.a) == Approx(frame.a.width()).epsilon(1e-5));
  CHECK(width_in(list, frame.b) == Approx(0.75 * frame.b.width()).epsilon(1e-5));
  const std::string picture = print(list);
  CHECK_THAT(picture, ContainsSubstring("\"4 ms\""));
  CHECK_THAT(picture, ContainsSubstring("\"3 ms, -25.0 %\""));
  const auto ticks = std::count_if(list.fills.begin(), list.fills.end(), [](const Fill& fill) {
    return fill.ink == Ink::Grid && fill.width == 1;
  });
  CHECK(ticks >= 5);  // 0 and at least one per millisecond
  // They lie below the bars: the last of them is drawn before the first bar.
  const auto last = std::find_if(list.fills.rbegin(), list.fills.rend(),
                                 [](const Fill& fill) { return fill.ink == Ink::Grid; });
  const auto bar = std::find_if(list.fills.begin(), list.fills.end(), [&](const Fill& fill) {
    return fill.y == Approx(frame.a.y()) && fill.height == Approx(frame.a.height());
  });
  CHECK(last.base() <= bar);
}

TEST_CASE("steps of no length draw nothing but the legend", "[gui][draw]") {
  const DisplayList list = draw_comparison({}, 600, {});
  CHECK(list.lines.empty());
  CHECK(list.fills.size() == 1 + kNumTimeParts);
}

}  // namespace
}  // namespace lockstep::gui
