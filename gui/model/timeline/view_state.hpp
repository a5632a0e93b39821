// ViewState: what the user arranged and marked in one file, kept for the next time it is opened.
#pragma once

#include <string>
#include <vector>

#include "gui/model/run/selection.hpp"
#include "gui/model/timeline/timeline_layout.hpp"

namespace lockstep::gui {

/// A place that the user wants to find again: a moment (an empty range) or a stretch of time.
struct Mark {
  TimeRange range;
  std::vector<Rank> ranks;  // ascending; empty: all
  std::string words;        // what is there
  bool same_place(const Mark& o) const { return range == o.range && ranks == o.ranks; }
  bool operator==(const Mark&) const = default;
};

/// In order of time. Adds `mark`, or takes away the one at its place.
void toggle(std::vector<Mark>& marks, Mark mark);
/// The mark after `here` (or before it), once around; `here` need not be a mark. Null: none.
const Mark* next_mark(const std::vector<Mark>& marks, const Mark& here, bool forward);

struct ViewState {
  LayoutChoice layout;
  std::vector<Mark> marks;
  bool operator==(const ViewState&) const = default;
};

/// As JSON, and back. What a file of another version lacks, or has wrong, is as it is at first.
std::string to_json(const ViewState& state);
ViewState parse_view_state(const std::string& json);

}  // namespace lockstep::gui
