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

/// Adds `mark`, or removes the mark that is at its place. Marks are in order of time.
void toggle(std::vector<Mark>& marks, Mark mark);
/// The mark after `here`, or before it; goes round at the ends. `here` need not be a mark. Null if
/// there are no marks.
const Mark* next_mark(const std::vector<Mark>& marks, const Mark& here, bool forward);

struct ViewState {
  LayoutChoice layout;
  std::vector<Mark> marks;
  bool operator==(const ViewState&) const = default;
};

/// Writes a state as JSON, and reads it. What a file of another version lacks, or has wrong, gets
/// its initial value.
std::string to_json(const ViewState& state);
ViewState parse_view_state(const std::string& json);

}  // namespace lockstep::gui
