#include "gui/model/run/open_runs.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::gui {

RunPtr OpenRuns::close(const RunPtr& run) {
  std::erase(all_, run);
  return all_.empty() ? nullptr : all_.back();
}

void OpenRuns::replace(const RunPtr& before, RunPtr run) {
  const auto old = std::find(all_.begin(), all_.end(), before);
  if (before && old != all_.end()) {
    *old = std::move(run);
  } else {
    all_.push_back(std::move(run));
  }
}

}  // namespace lockstep::gui
