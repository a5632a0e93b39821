// Layouts drawing: the layouts of a search as points of time against memory.
#pragma once

#include <string>
#include <vector>

#include "gui/draw/display_list.hpp"
#include "gui/model/layout_search.hpp"

namespace lockstep::gui {

/// A family of layouts and its ink.
struct FamilyInk {
  std::string name;
  Ink ink = Ink::Faint;
  Hatch hatch = Hatch::None;
};

/// Where the points are: the plot, and what its edges mean.
struct LayoutsFrame {
  QRectF plot, legend;
  double from = 0, to = 1;          // seconds at the left and the right edge
  double bottom = 0, top = 1;       // bytes at the lower and the upper edge
  std::vector<FamilyInk> families;  // by their best layout; later ones share the ink Faint
  /// The point of a layout; one that lies beyond the frame is drawn at its edge.
  QPointF place(const JudgedLayout& layout) const;
  /// The index of the row whose point is nearest, within a few pixels; -1 if none is.
  int at(QPointF point, const std::vector<LayoutRow>& rows) const;
};

/// Layouts that are far slower than the best are left out of the frame, but for those that were
/// simulated, and the open scenario. So is a capacity that is far above what any layout needs.
LayoutsFrame layouts_frame(const std::vector<LayoutRow>& rows, Bytes capacity, QRectF rect,
                           const TextSize& text);

/// Draws a point for every row, small for an estimate and large for a simulation, in the ink of its
/// family; the front as steps; the capacity as a line; the open scenario with a frame. Beside it
/// stand the families, each with how much slower its best is and why, and those that lost without a
/// layout.
DisplayList draw_layouts(const std::vector<LayoutRow>& rows, const std::vector<LostFamily>& lost,
                         Bytes capacity, const LayoutsFrame& frame, const TextSize& text);

}  // namespace lockstep::gui
