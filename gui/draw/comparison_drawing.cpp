#include "gui/draw/comparison_drawing.hpp"

#include <algorithm>

#include "core/format/format.hpp"
#include "gui/draw/breakdown_drawing.hpp"
#include "gui/model/timeline/time_axis.hpp"

namespace lockstep::gui {

ComparisonFrame ComparisonFrame::fitting(double width, const TextSize& text) {
  const double line = text.line_height, gutter = text.width_of("A") + 12;
  const double right = text.width_of("+100.0 %, 1000.0 ms") + 12;
  ComparisonFrame frame;
  const double bar = std::max(width - gutter - right, 10.0);
  frame.a = {gutter, 2 * line + 4, bar, line + 4};
  frame.b = frame.a.translated(0, line + 8);
  frame.axis = frame.b.bottom() + 4;
  frame.height = frame.axis + line + 6;
  return frame;
}

DisplayList draw_comparison(const ComparisonModel& model, double width, const TextSize& text) {
  const ComparisonFrame frame = ComparisonFrame::fitting(width, text);
  DisplayList list;
  list.fill({0, 0, width, frame.height}, Ink::Background);
  list.append(
      draw_parts_legend({frame.a.x(), 2, width - frame.a.x() - 4, 2 * text.line_height}, text));
  const Seconds whole = std::max(sum(model.parts_a), sum(model.parts_b));
  if (!(whole.v > 0)) return list;

  const TimeAxis axis{SimTime{}, std::max(to_sim_time(whole), SimTime{1}), frame.a.width()};
  const SimTime step = nice_step(axis.span_of(std::max(text.width_of("1000.0 ms") + 16, 70.0)));
  for (SimTime t{}; t <= axis.end; t += step) {
    const double x = frame.a.x() + axis.x_of(t);
    list.fill({x, frame.a.top() - 2, 1, frame.axis + 6 - frame.a.top()}, Ink::Grid);  // under bars
    list.text({x + 3, frame.axis, text.width_of("1000.0 ms") + 10, text.line_height},
              tick_text(t, step), Ink::Faint);
  }
  const auto row = [&](const char* letter, const TimeParts& parts, QRectF rect,
                       const std::string& words) {
    list.texts.push_back(
        {{4, rect.y(), rect.x() - 4, rect.height()}, letter, Ink::Text, false, Align::Left, true});
    list.append(draw_parts_bar(parts, whole, rect, text));
    list.text({rect.right() + 6, rect.y(), width - rect.right() - 8, rect.height()}, words);
  };
  row("A", model.parts_a, frame.a, time_text(model.step_a));
  row("B", model.parts_b, frame.b,
      time_text(model.step_b) + ", " + change_text(model.step_a.v, model.step_b.v));
  return list;
}

}  // namespace lockstep::gui
