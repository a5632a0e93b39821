// Breakdown drawing: bars that show the parts of each rank's step, and its bubbles by cause.
#pragma once

#include <optional>

#include "gui/draw/display_list.hpp"
#include "gui/model/run/summary_model.hpp"

namespace lockstep::gui {

/// Colour and pattern of a part. Parts are in the order of TimeParts.
struct PartStyle {
  Ink ink;
  Hatch hatch;
};
PartStyle style_of_part(std::size_t part);

/// Draws one bar with its parts side by side. Widths are proportional, so that `whole` is as wide
/// as `rect`. Each part's share of the bar's own sum is written where there is room.
DisplayList draw_parts_bar(const TimeParts& parts, Seconds whole, QRectF rect,
                           const TextSize& text);
/// Draws the names of the parts, each beside its box, in as many lines from the top of `rect` as
/// its width asks for.
DisplayList draw_parts_legend(QRectF rect, const TextSize& text);

/// Where the rows of the picture are.
struct BreakdownFrame {
  double width = 0, gutter = 0, line = 0;
  double row_height = 0, rows_top = 0;  // of the rows of ranks
  double bubbles_top = 0;               // of the rows of causes
  std::size_t rows = 0;
  double height = 0;  // of the whole picture
  static BreakdownFrame fitting(const SummaryModel& model, double width, const TextSize& text);
  QRectF legend() const;
  QRectF bar(std::size_t row) const;
  QRectF bubble_bar(int cause) const;
  std::optional<std::size_t> row_at(QPointF point) const;
};

/// Draws a bar for each row of the model, then one for each cause of bubbles, as the mean over
/// ranks.
DisplayList draw_breakdown(const SummaryModel& model, double width, const TextSize& text);

}  // namespace lockstep::gui
