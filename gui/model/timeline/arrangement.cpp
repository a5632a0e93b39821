#include "gui/model/timeline/arrangement.hpp"

#include <utility>

namespace lockstep::gui {

bool Arrangement::set_layout(LayoutChoice layout) {
  if (layout == layout_) return false;
  layout_ = std::move(layout);
  return true;
}

Arrangement::Changed Arrangement::show(const RunPtr& before, const RunPtr& after) {
  views_ = views(before);
  const auto kept = after ? views_.find(after->path) : views_.end();
  const bool same_file = before && after && before->path == after->path;
  Changed changed;
  changed.world = after && (!before || before->trace.rank_labels != after->trace.rank_labels);
  if (changed.world) {
    layout_ = kept != views_.end() && !same_file ? kept->second.layout : initial_choice(*after);
  }
  const std::vector<Mark> marks_before = marks_;
  if (!same_file) marks_ = kept != views_.end() ? kept->second.marks : std::vector<Mark>();
  changed.marks = marks_ != marks_before;
  return changed;
}

ViewsByPath Arrangement::views(const RunPtr& shown) const {
  ViewsByPath views = views_;
  if (!shown || shown->path.empty()) return views;
  if (marks_.empty() && layout_ == initial_choice(*shown)) {
    views.erase(shown->path);
  } else {
    views[shown->path] = {layout_, marks_};
  }
  return views;
}

}  // namespace lockstep::gui
