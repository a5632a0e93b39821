// TimelineLayout: which lanes are shown, in which order, and where; what the user folded, pinned,
// moved and filtered.
#pragma once

#include <set>
#include <string>
#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// A row, whatever the run: "pp1", "rank 3", "rank 3/gather". Survives a new simulation.
using RowKey = std::string;

/// What the user chose. Kept while runs come and go, saved with the window.
struct LayoutChoice {
  std::set<RowKey> folded;       // groups and ranks
  std::vector<RowKey> pinned;    // ranks and streams shown above all, in this order
  std::vector<Rank> order;       // ranks moved by the user, in their order; the others follow
  std::string filter;            // shows the rows whose label contains it, ignoring case
  bool identical_ranks = false;  // also ranks that do exactly what another rank does
  bool operator==(const LayoutChoice&) const = default;
};

/// The choice a new run starts with: ranks are folded where all of them would not fit a screen.
LayoutChoice initial_choice(const RunView& run);

struct Row {
  enum class Kind { Group, Rank, Stream };
  Kind kind = Kind::Rank;
  RowKey key;
  std::string label;           // "stage 1", "rank 3 (dp0)", "gather"
  Rank rank = -1;              // Rank, Stream; of a Group: its first
  int stream = -1;             // Stream; of a Rank: the compute stream
  const Lane* lane = nullptr;  // what is drawn in it; null: nothing
  double y = 0, height = 0;
  bool folded = false, foldable = false, pinned = false;
};

struct TimelineLayout {
  std::vector<Row> pinned;  // y from the top of the pinned area
  std::vector<Row> rows;    // y from the top of the scrolled area
  double pinned_height = 0, height = 0;
  std::size_t hidden_copies = 0;  // ranks left out because another does the same
};

struct RowHeights {
  double group = 20, rank = 22, stream = 14;
};

TimelineLayout lay_out(const RunView& run, const LayoutChoice& choice, const RowHeights& heights);

/// The row at height `y`, or null. Logarithmic.
const Row* row_at(const std::vector<Row>& rows, double y);

/// Every row that could be shown, those that are folded or filtered away too.
std::vector<RowKey> all_rows(const RunView& run);
/// Unfolds and shows whatever hides the row.
LayoutChoice revealing(const RunView& run, LayoutChoice choice, const RowKey& key);

/// A gap between rows, into which a dragged row may fall.
struct Gap {
  RowKey next;   // the row below; empty: none
  double y = 0;  // from the top of the rows' area
  bool operator==(const Gap&) const = default;
};
/// The gap nearest to `y`: of a pinned row, among the pinned; of others, among the ranks of the
/// rank's stage.
Gap gap_near(const RunView& run, const TimelineLayout& layout, const Row& dragged, double y);
/// The dragged row (its rank, unless it is pinned) stands above `next`.
LayoutChoice dropped(const RunView& run, LayoutChoice choice, const Row& dragged,
                     const RowKey& next);

/// `rank` one place up (-1) or down (+1) among the ranks shown with it.
LayoutChoice moved(const RunView& run, LayoutChoice choice, Rank rank, int by);
LayoutChoice folded_ranks(const RunView& run, LayoutChoice choice, bool fold);  // all of them
LayoutChoice toggled_fold(LayoutChoice choice, const RowKey& key);
LayoutChoice toggled_pin(LayoutChoice choice, const RowKey& key);

}  // namespace lockstep::gui
