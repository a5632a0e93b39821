// The timeline in words and numbers: its spans, its bubbles, its critical path, and what an area
// adds up to. For keyboards, for screen readers, and for sorting.
#pragma once

#include <optional>
#include <vector>

#include "gui/model/run/selection.hpp"
#include "gui/model/run/table_model.hpp"
#include "gui/model/timeline/view_state.hpp"

namespace lockstep::gui {

/// A table and where its rows point.
struct TimelineTable {
  TableContent content;
  std::function<Selection(std::size_t row)> target;
};

/// What is in the selected area, or everything. The run lives as long as the table.
TimelineTable span_table(const RunPtr& run, const Selection& selection);
TimelineTable bubble_table(const RunPtr& run, const Selection& selection);
TimelineTable path_table(const RunPtr& run);
TimelineTable mark_table(const RunPtr& run, std::vector<Mark> marks);
/// Count, total, average, percentiles of the selected area (or of the run): per kind, then per
/// rank.
TimelineTable statistics_table(const RunPtr& run, const Selection& selection);

}  // namespace lockstep::gui
