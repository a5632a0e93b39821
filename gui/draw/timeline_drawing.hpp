// Timeline drawing: the rows of lanes over time. The time to draw depends on the number of pixels,
// however many spans there are.
#pragma once

#include <optional>

#include "gui/draw/display_list.hpp"
#include "gui/model/timeline/time_axis.hpp"
#include "gui/model/timeline/timeline_layout.hpp"

namespace lockstep::gui {

/// Where things are in the timeline's widget. `axis` covers the pixels right of the gutter.
struct TimelineFrame {
  QSizeF size;
  double gutter = 160;  // width of the labels on the left
  double ruler = 24;    // height of the time scale on top
  double scroll = 0;    // the y of the rows that is directly below the ruler and the pinned rows
  TimeAxis axis;

  double x_of(SimTime t) const { return gutter + axis.x_of(t); }
  SimTime time_at(double x) const { return axis.time_at(x - gutter); }
  double rows_top(const TimelineLayout& layout) const { return ruler + layout.pinned_height; }
};

/// Spans that are narrower than this, in pixels, are folded with their neighbours.
inline constexpr double kFoldBelow = 2;

/// Draws the spans of one lane that `axis` shows into the box `row`, whose left edge is axis.begin.
/// Every span in the window is drawn alone, or in exactly one box with others, so that the sum of
/// Fill::stands_for is their number. A box of narrow spans has the colours of what took most of the
/// time in it, blended by their shares and with the time in which nothing ran. Layers of one
/// microbatch and phase are one box until each has room for a label, and that box says which.
void draw_lane(DisplayList& list, const RunView& run, const Lane& lane, const TimeAxis& axis,
               const QRectF& row, const TextSize& text);

/// The pattern of a bubble, which says its cause.
Hatch hatch_of(BubbleCause cause);

/// A labelled time on the ruler.
struct RulerTick {
  double x = 0;
  QRectF label;
  std::string words;
};
std::vector<RulerTick> ruler_ticks(const RunView& run, const TimelineFrame& frame,
                                   const TextSize& text);

DisplayList draw_timeline(const RunView& run, const TimelineLayout& layout,
                          const TimelineFrame& frame, const TextSize& text);

/// A row, pinned or not, and where it is in the widget.
struct RowPlace {
  const Row* row = nullptr;
  QRectF rect;
};
std::optional<RowPlace> row_at(const TimelineLayout& layout, const TimelineFrame& frame,
                               QPointF point);

/// Where a row is in the widget; empty if it is scrolled out of sight.
std::optional<QRectF> place_of(const TimelineLayout& layout, const TimelineFrame& frame,
                               const Row& row);

/// The span under a point or, if there is none, up to three pixels beside it, as an index into
/// Trace::spans.
std::optional<std::size_t> span_at(const TimelineLayout& layout, const TimelineFrame& frame,
                                   QPointF point);

}  // namespace lockstep::gui
