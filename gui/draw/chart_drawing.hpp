// Chart: a number against steps.
#pragma once

#include <string>
#include <vector>

#include "gui/draw/display_list.hpp"

namespace lockstep::gui {

struct Chart {
  std::string title;            // "loss"
  std::vector<QPointF> points;  // by x, ascending; a y that is not finite leaves a hole
  Ink ink = Ink::Accent;
  bool from_zero = false;  // the scale begins at 0
};

/// Ticks at round numbers, the last value beside the title. As many points as pixels: of those that
/// share a pixel, the lowest and the highest are drawn.
DisplayList draw_chart(const Chart& chart, QRectF rect, const TextSize& text);

}  // namespace lockstep::gui
