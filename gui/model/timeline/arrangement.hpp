// Arrangement: what the user arranged and marked in the run shown, and in every other file.
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
  /// False: nothing changed.
  bool set_layout(LayoutChoice layout);
  void toggle_mark(Mark mark) { toggle(marks_, std::move(mark)); }

  /// `after` is shown instead of `before`; either may be null. A new simulation of the same world
  /// keeps what the user arranged; a file that was shown before has its own again.
  struct Changed {
    bool world = false;  // other ranks: the layout is another
    bool marks = false;
  };
  Changed show(const RunPtr& before, const RunPtr& after);

  /// By path of a file: what was arranged and marked in it, if anything. `shown` may be null.
  ViewsByPath views(const RunPtr& shown) const;
  void set_views(ViewsByPath views) { views_ = std::move(views); }

 private:
  LayoutChoice layout_;
  std::vector<Mark> marks_;
  ViewsByPath views_;  // of the files that are not shown now
};

}  // namespace lockstep::gui
