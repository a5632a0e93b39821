// TimelineLayout: which lanes are shown, in which order, and where. It follows from what the user
// folded, pinned, moved and filtered.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// The name of a row, which does not depend on the run, so that it survives a new simulation:
/// "pp1", "rank 3", "rank 3/gather".
using RowKey = std::string;

/// What the user chose. It is kept when another run is shown, and saved with the window.
struct LayoutChoice {
  std::set<RowKey> folded;       // groups and ranks that are folded
  std::vector<RowKey> pinned;    // ranks and streams that are shown above all others, in this order
  std::vector<Rank> order;       // ranks that the user moved, in their order; the others follow
  std::string filter;            // only rows whose label contains it, ignoring case, are shown
  bool identical_ranks = false;  // whether ranks that do exactly what another rank does are shown
  bool operator==(const LayoutChoice&) const = default;
};

/// The choice with which a new run starts: ranks are folded if not all of them would fit a screen.
LayoutChoice initial_choice(const RunView& run);

struct Row {
  enum class Kind { Group, Rank, Stream };
  Kind kind = Kind::Rank;
  RowKey key;
  std::string label;           // "stage 1", "rank 3 (dp0)", "gather"
  Rank rank = -1;              // the rank of a Rank or Stream, or the first rank of a Group
  int stream = -1;             // the stream of a Stream, or the compute stream of a Rank
  const Lane* lane = nullptr;  // the lane that is drawn in it; null if none is
  double y = 0, height = 0;
  bool folded = false, foldable = false, pinned = false;
};

struct TimelineLayout {
  std::vector<Row> pinned;  // their y counts from the top of the pinned area
  std::vector<Row> rows;    // their y counts from the top of the scrolled area
  double pinned_height = 0, height = 0;
  std::size_t hidden_copies = 0;  // ranks that are left out because another does the same
};

struct RowHeights {
  double group = 20, rank = 22, stream = 14;
};

TimelineLayout lay_out(const RunView& run, const LayoutChoice& choice, const RowHeights& heights);

/// The row at height `y`, or null. Takes logarithmic time.
const Row* row_at(const std::vector<Row>& rows, double y);

/// Every row that could be shown, also those that are folded or filtered away.
std::vector<RowKey> all_rows(const RunView& run);
/// The choice changed so that the row is shown: what hides it is unfolded or no longer filtered.
LayoutChoice revealing(const RunView& run, LayoutChoice choice, const RowKey& key);

/// A gap between rows, into which a dragged row may be dropped.
struct Gap {
  RowKey next;   // the row below; empty if there is none
  double y = 0;  // from the top of the rows' area
  bool operator==(const Gap&) const = default;
};
/// The gap nearest to `y`: for a pinned row, among the pinned rows; for others, among the ranks of
/// the same stage.
Gap gap_near(const RunView& run, const TimelineLayout& layout, const Row& dragged, double y);
/// The choice changed so that the dragged row, or its rank unless the row is pinned, is above
/// `next`.
LayoutChoice dropped(const RunView& run, LayoutChoice choice, const Row& dragged,
                     const RowKey& next);

/// The choice with `rank` moved one place up (-1) or down (+1) among the ranks shown with it.
LayoutChoice moved(const RunView& run, LayoutChoice choice, Rank rank, int by);
LayoutChoice folded_ranks(const RunView& run, LayoutChoice choice, bool fold);  // all ranks
LayoutChoice toggled_fold(LayoutChoice choice, const RowKey& key);
LayoutChoice toggled_pin(LayoutChoice choice, const RowKey& key);

}  // namespace lockstep::gui
