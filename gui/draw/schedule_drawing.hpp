// Schedule drawing: the picture of a schedule as a grid of steps × ranks.
#pragma once

#include <optional>

#include "gui/draw/display_list.hpp"
#include "gui/model/form/schedule_grid.hpp"

namespace lockstep::gui {

/// Where the boxes of the grid are, for drawing and for the mouse.
struct GridFrame {
  double gutter = 60, heading = 20, cell_width = 20, cell_height = 22;
  static GridFrame fitting(const ScheduleGrid& grid, QSizeF size, const TextSize& text);
  QRectF box(const GridCell& cell) const;
};

DisplayList draw_schedule(const ScheduleGrid& grid, QSizeF size, const TextSize& text);

/// The index of the cell at a point.
std::optional<std::size_t> cell_at(const ScheduleGrid& grid, const GridFrame& frame, QPointF point);

}  // namespace lockstep::gui
