// The timeline's picture: rows of lanes against time. Costs what its pixels cost, however many
// spans there are.
#pragma once

#include <optional>

#include "gui/draw/display_list.hpp"
#include "gui/model/timeline/time_axis.hpp"
#include "gui/model/timeline/timeline_layout.hpp"

namespace lockstep::gui {

/// Where things stand in the timeline's widget. `axis` covers the pixels right of the gutter.
struct TimelineFrame {
  QSizeF size;
  double gutter = 160;  // width of the labels on the left
  double ruler = 24;    // height of the time scale on top
  double scroll = 0;    // y of the rows that lies under the ruler and the pinned rows
  TimeAxis axis;

  double x_of(SimTime t) const { return gutter + axis.x_of(t); }
  SimTime time_at(double x) const { return axis.time_at(x - gutter); }
  double rows_top(const TimelineLayout& layout) const { return ruler + layout.pinned_height; }
};

/// Spans narrower than this are folded with their neighbours.
inline constexpr double kFoldBelow = 2;

/// The spans of one lane that `axis` shows, in the box `row` (its left edge is axis.begin). Every
/// span of the window is drawn alone or in exactly one box with others: Fill::stands_for adds up to
/// their number. What several spans share has the look of the longest.
void draw_lane(DisplayList& list, const RunView& run, const Lane& lane, const TimeAxis& axis,
               const QRectF& row, const TextSize& text);

/// Labelled times on the ruler.
struct RulerTick {
  double x = 0;
  QRectF label;
  std::string words;
};
std::vector<RulerTick> ruler_ticks(const RunView& run, const TimelineFrame& frame,
                                   const TextSize& text);

DisplayList draw_timeline(const RunView& run, const TimelineLayout& layout,
                          const TimelineFrame& frame, const TextSize& text);

/// The row at a point of the widget, pinned or not, and where it stands there.
struct RowPlace {
  const Row* row = nullptr;
  QRectF rect;
};
std::optional<RowPlace> row_at(const TimelineLayout& layout, const TimelineFrame& frame,
                               QPointF point);

/// Where a row stands in the widget; none if it is scrolled out of sight.
std::optional<QRectF> place_of(const TimelineLayout& layout, const TimelineFrame& frame,
                               const Row& row);

/// The span at a point, as index into Trace::spans: under it or, up to three pixels, beside it.
std::optional<std::size_t> span_at(const RunView& run, const TimelineLayout& layout,
                                   const TimelineFrame& frame, QPointF point);

}  // namespace lockstep::gui
