// OpenRuns: the runs that are open, which of them is shown, and the two that are compared.
#pragma once

#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

enum class Slot { A, B };

class OpenRuns {
 public:
  /// All open runs, beginning with the simulation of the document if there is one.
  const std::vector<RunPtr>& all() const { return all_; }
  void add(RunPtr run) { all_.push_back(std::move(run)); }
  /// Closes a run. Returns what to show if `run` was shown: the first run that is left, or null.
  RunPtr close(const RunPtr& run);

  /// The last simulation of the document; null if there is none yet, or it was closed.
  const RunPtr& simulation() const { return simulation_; }
  /// Replaces the simulation.
  void set_simulation(RunPtr run);

  RunPtr slot(Slot slot) const { return slots_[static_cast<int>(slot)]; }
  /// Puts a run into a slot, where it stays even when it is closed.
  void store(Slot slot, RunPtr run) { slots_[static_cast<int>(slot)] = std::move(run); }

 private:
  std::vector<RunPtr> all_;
  RunPtr simulation_;
  RunPtr slots_[2];
};

}  // namespace lockstep::gui
