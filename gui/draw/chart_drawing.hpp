// Chart: a curve of a number over the steps.
#pragma once

#include <string>
#include <vector>

#include "gui/draw/display_list.hpp"

namespace lockstep::gui {

struct Chart {
  std::string title;            // "loss"
  std::vector<QPointF> points;  // by ascending x; a y that is not finite leaves a hole
  Ink ink = Ink::Accent;
  bool from_zero = false;  // the scale begins at 0
};

/// Draws a chart with ticks at round numbers and the last value beside the title. Of points that
/// share a pixel, only the first, lowest, highest and last are drawn.
DisplayList draw_chart(const Chart& chart, QRectF rect, const TextSize& text);

}  // namespace lockstep::gui
