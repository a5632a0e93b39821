// OpenRuns: the runs that are open, which of them is shown, and the two that are compared.
#pragma once

#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

enum class Slot { A, B };

class OpenRuns {
 public:
  /// All open runs, in the order in which they were opened.
  const std::vector<RunPtr>& all() const { return all_; }
  void add(RunPtr run) { all_.push_back(std::move(run)); }
  /// Puts a new simulation in the place of the one before; adds it if `before` is null.
  void replace(const RunPtr& before, RunPtr run);
  /// Closes a run. Returns what to show if `run` was shown: the run opened last of those that are
  /// left, or null.
  RunPtr close(const RunPtr& run);

  RunPtr slot(Slot slot) const { return slots_[static_cast<int>(slot)]; }
  /// Puts a run into a slot, where it stays even when it is closed.
  void store(Slot slot, RunPtr run) { slots_[static_cast<int>(slot)] = std::move(run); }

 private:
  std::vector<RunPtr> all_;
  RunPtr slots_[2];
};

}  // namespace lockstep::gui
