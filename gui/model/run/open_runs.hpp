// OpenRuns: the runs that are open, which of them is shown, and the two that are compared.
#pragma once

#include <vector>

#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

enum class Slot { A, B };

class OpenRuns {
 public:
  /// The simulation of the document first, if there is one.
  const std::vector<RunPtr>& all() const { return all_; }
  void add(RunPtr run) { all_.push_back(std::move(run)); }
  /// What to show if `run` was shown: the first that is left; null: none is.
  RunPtr close(const RunPtr& run);

  /// Of the document, as it was last simulated; null: none yet, or it was closed.
  const RunPtr& simulation() const { return simulation_; }
  /// Takes the place of the simulation before it.
  void set_simulation(RunPtr run);

  RunPtr slot(Slot slot) const { return slots_[static_cast<int>(slot)]; }
  /// Stays there when the run is closed.
  void store(Slot slot, RunPtr run) { slots_[static_cast<int>(slot)] = std::move(run); }

 private:
  std::vector<RunPtr> all_;
  RunPtr simulation_;
  RunPtr slots_[2];
};

}  // namespace lockstep::gui
