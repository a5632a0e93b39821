// Timeline tables: the timeline in words and numbers, that is, its spans, its bubbles, its critical
// path, and the statistics of an area; for keyboards, for screen readers, and for sorting.
#pragma once

#include <optional>
#include <vector>

#include "gui/model/run/selection.hpp"
#include "gui/model/run/table_model.hpp"
#include "gui/model/timeline/view_state.hpp"

namespace lockstep::gui {

/// A table, and what its rows point to.
struct TimelineTable {
  TableContent content;
  std::function<Selection(std::size_t row)> target;
};

/// The spans in the selected area, or all spans. Tables keep the run alive.
TimelineTable span_table(const RunPtr& run, const Selection& selection);
TimelineTable bubble_table(const RunPtr& run, const Selection& selection);
TimelineTable path_table(const RunPtr& run);
TimelineTable mark_table(const RunPtr& run, std::vector<Mark> marks);
/// Count, total, average and percentiles of the spans in the selected area, or in the run: per
/// kind, then per rank.
TimelineTable statistics_table(const RunPtr& run, const Selection& selection);
/// The same by name: of a kernel, of what the host calls, of an op of ours. A row points to the
/// longest span of its name.
TimelineTable name_table(const RunPtr& run, const Selection& selection);

}  // namespace lockstep::gui
