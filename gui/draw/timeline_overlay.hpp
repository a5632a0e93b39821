// What lies over the timeline: cursor, selection, links, the critical path, a measured area.
#pragma once

#include <optional>

#include "gui/draw/timeline_drawing.hpp"
#include "gui/model/run/links.hpp"
#include "gui/model/timeline/view_state.hpp"

namespace lockstep::gui {

struct TimelineOverlay {
  SimTime cursor{};
  std::optional<double> hover_x;
  std::optional<SpanId> span;  // selected
  std::vector<Link> links;     // of the selected span
  std::optional<SimTime> area_begin, area_end;
  std::vector<Rank> area_ranks;  // empty: all rows
  std::vector<Mark> marks;       // in order of time, numbered from 1
  RowKey found;                  // a row to be told from the others; empty: none
  std::optional<double> drop;    // y of the gap in which a dragged row would fall
  bool critical_path = false;
};

DisplayList draw_overlay(const RunView& run, const TimelineLayout& layout,
                         const TimelineFrame& frame, const TextSize& text,
                         const TimelineOverlay& overlay);

/// Where a span stands in the widget, in the row of its stream or, if that is folded away, of its
/// rank; none if neither is in sight.
std::optional<QRectF> place_of(const RunView& run, const TimelineLayout& layout,
                               const TimelineFrame& frame, SpanId span);

/// The span edge or step edge nearest to `x` in the row at `y`, if it is within `reach` pixels.
std::optional<SimTime> snap(const RunView& run, const TimelineLayout& layout,
                            const TimelineFrame& frame, QPointF point, double reach);

}  // namespace lockstep::gui
