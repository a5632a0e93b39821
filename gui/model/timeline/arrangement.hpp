// Arrangement: what the user arranged and marked in the run shown and in other files.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "gui/model/run/run_view.hpp"
#include "gui/model/timeline/view_state.hpp"

namespace lockstep::gui {

using ViewsByPath = std::map<std::string, ViewState>;

class Arrangement {
 public:
  const LayoutChoice& layout() const { return layout_; }
  const std::vector<Mark>& marks() const { return marks_; }  // in order of time
  /// Returns whether anything changed.
  bool set_layout(LayoutChoice layout);
  void toggle_mark(Mark mark) { toggle(marks_, std::move(mark)); }

  /// What show() has changed.
  struct Changed {
    bool world = false;  // there are other ranks, so the layout is another
    bool marks = false;
  };
  /// `after` is shown instead of `before`; either may be null. A new simulation of the same ranks
  /// keeps what the user arranged; a file that was shown earlier gets its own arrangement back.
  Changed show(const RunPtr& before, const RunPtr& after);

  /// What was arranged and marked in each file, by its path. `shown` may be null.
  ViewsByPath views(const RunPtr& shown) const;
  void set_views(ViewsByPath views) { views_ = std::move(views); }

 private:
  LayoutChoice layout_;
  std::vector<Mark> marks_;
  ViewsByPath views_;  // those of files that are not shown now
};

}  // namespace lockstep::gui
