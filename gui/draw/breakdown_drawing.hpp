// What steps consist of, as bars: the parts of each rank's step, and its bubbles by cause.
#pragma once

#include <optional>

#include "gui/draw/display_list.hpp"
#include "gui/model/run/summary_model.hpp"

namespace lockstep::gui {

/// Colour and pattern of a part, in TimeParts' order.
struct PartStyle {
  Ink ink;
  Hatch hatch;
};
PartStyle style_of_part(std::size_t part);

/// One bar: its parts side by side, their widths in proportion, `whole` as wide as `rect`; shares
/// of the bar's own sum are written where there is room.
DisplayList draw_parts_bar(const TimeParts& parts, Seconds whole, QRectF rect,
                           const TextSize& text);
/// The parts' names, each beside its box; wraps, and fits two lines of 330 pixels.
DisplayList draw_parts_legend(QRectF rect, const TextSize& text);

/// Where the picture's rows stand.
struct BreakdownFrame {
  double width = 0, gutter = 0, line = 0;
  double row_height = 0, rows_top = 0;  // of ranks
  double bubbles_top = 0;               // of causes
  std::size_t rows = 0;
  double height = 0;  // of the picture
  static BreakdownFrame fitting(const SummaryModel& model, double width, const TextSize& text);
  QRectF bar(std::size_t row) const;
  QRectF bubble_bar(int cause) const;
  std::optional<std::size_t> row_at(QPointF point) const;
};

/// A bar per row of the model, then one per cause of bubbles, as a mean over the ranks.
DisplayList draw_breakdown(const SummaryModel& model, double width, const TextSize& text);

}  // namespace lockstep::gui
