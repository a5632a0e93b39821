#include "gui/model/run/open_runs.hpp"

#include <algorithm>
#include <utility>

namespace lockstep::gui {

RunPtr OpenRuns::close(const RunPtr& run) {
  std::erase(all_, run);
  if (simulation_ == run) simulation_.reset();
  return all_.empty() ? nullptr : all_.front();
}

void OpenRuns::set_simulation(RunPtr run) {
  const auto old = std::find(all_.begin(), all_.end(), simulation_);
  if (simulation_ && old != all_.end()) {
    *old = run;
  } else {
    all_.insert(all_.begin(), run);
  }
  simulation_ = std::move(run);
}

}  // namespace lockstep::gui
