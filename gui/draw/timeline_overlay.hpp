// Timeline overlay: what is drawn over the timeline, that is, cursor, selection, links, the
// critical path and a measured area.
#pragma once

#include <optional>

#include "gui/draw/timeline_drawing.hpp"
#include "gui/model/run/links.hpp"
#include "gui/model/timeline/view_state.hpp"

namespace lockstep::gui {

struct TimelineOverlay {
  SimTime cursor{};
  std::optional<double> hover_x;
  std::optional<SpanId> span;  // the selected span
  std::vector<Link> links;     // its links
  std::optional<SimTime> area_begin, area_end;
  std::vector<Rank> area_ranks;  // empty: all rows
  std::vector<Mark> marks;       // in order of time, numbered from 1
  RowKey found;                  // a row that is highlighted; empty if none
  std::optional<double> drop;    // y of the gap into which a dragged row would be dropped
  bool critical_path = false;
};

DisplayList draw_overlay(const RunView& run, const TimelineLayout& layout,
                         const TimelineFrame& frame, const TextSize& text,
                         const TimelineOverlay& overlay);

/// Where a span is in the widget, in the row of its stream or, if that is folded away, of its rank;
/// empty if neither is in sight.
std::optional<QRectF> place_of(const RunView& run, const TimelineLayout& layout,
                               const TimelineFrame& frame, SpanId span);

/// The edge of a span or step that is nearest to a point in its row, if it is within `reach`
/// pixels.
std::optional<SimTime> snap(const RunView& run, const TimelineLayout& layout,
                            const TimelineFrame& frame, QPointF point, double reach);

}  // namespace lockstep::gui
