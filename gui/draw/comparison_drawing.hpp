// Comparison drawing: two steps, one above the other, on the same axis.
#pragma once

#include "gui/draw/display_list.hpp"
#include "gui/model/run/comparison_model.hpp"

namespace lockstep::gui {

struct ComparisonFrame {
  QRectF a, b;      // rows of the bars; the longer step is as wide as its row
  double axis = 0;  // y of the ruler
  double height = 0;
  static ComparisonFrame fitting(double width, const TextSize& text);
};

/// Draws the parts of both steps, as means over ranks and in the order of TimeParts, with a ruler
/// below.
DisplayList draw_comparison(const ComparisonModel& model, double width, const TextSize& text);

}  // namespace lockstep::gui
