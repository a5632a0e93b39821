// Selection: what the user points at in a run.
#pragma once

#include <optional>
#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

struct TimeRange {
  SimTime begin{}, end{};
  bool operator==(const TimeRange&) const = default;
};

/// The selection in the run shown: a span, or an area of the timeline.
struct Selection {
  std::optional<SpanId> span;
  std::optional<TimeRange> range;  // an area of the timeline
  std::vector<Rank> ranks;         // of the area, ascending; empty: all ranks
  bool operator==(const Selection&) const = default;
};

}  // namespace lockstep::gui
