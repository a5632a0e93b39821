// Comparison drawing: the timelines of two steps, one above the other on one time scale, with what
// each step consists of.
#pragma once

#include <optional>
#include <vector>

#include "gui/draw/display_list.hpp"
#include "gui/model/run/comparison_model.hpp"
#include "gui/model/timeline/time_axis.hpp"

namespace lockstep::gui {

/// Which steps are shown, and which part of them. Times count from the begin of both steps.
struct ComparisonWindow {
  std::size_t step = 0;    // the step-th of A beside the step-th of B
  SimTime begin{}, end{};  // equal: both steps, whole
};

/// One of the two steps in the picture.
struct ComparedStep {
  const RunView* run = nullptr;
  const StepAnalysis* step = nullptr;  // null: the run has no such step
  std::vector<Rank> ranks;             // with rows of their own, top to bottom
  std::size_t left_out = 0;            // ranks for whose rows there is no room
  QRectF rows, bar;                    // the ranks' rows, and the bar of the parts below them
};

struct ComparisonFrame {
  TimeAxis axis;  // the same for both steps; counts from their begin
  ComparedStep a, b;
  double row_height = 0, legend = 0;  // y of the legend
  static ComparisonFrame fitting(const ComparisonModel& model, const ComparisonWindow& window,
                                 QSizeF size, const TextSize& text);
};

/// Draws a ruler, the ranks of A's step and what it consists of (means over ranks, in the order of
/// StepCause), and the same of B's step below. A line marks the end of each step. Where nothing is
/// zoomed, the longer step is as wide as the axis.
DisplayList draw_comparison(const ComparisonModel& model, const ComparisonWindow& window,
                            QSizeF size, const TextSize& text);

/// The run and the span at a point of the picture.
struct ComparedSpan {
  bool in_b = false;
  SpanId span = 0;
};
std::optional<ComparedSpan> span_at(const ComparisonFrame& frame, QPointF point);

}  // namespace lockstep::gui
