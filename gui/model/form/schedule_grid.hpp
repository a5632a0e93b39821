// ScheduleGrid: a pipeline schedule as steps × ranks, every action one step long: its shape without
// the times.
#pragma once

#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep::gui {

struct GridCell {
  int rank = 0;  // coordinate along "pp"
  int step = 0;
  Action action;
  int part = 0, parts = 1;  // of actions that run as one: this is the part-th
  bool operator==(const GridCell&) const = default;
};

struct ScheduleGrid {
  std::vector<GridCell> cells;  // by rank, then in the rank's order
  int ranks = 0, steps = 0;
  int stages_per_rank = 1;
  int idle() const;  // steps of ranks without an action
  bool operator==(const ScheduleGrid&) const = default;
};

/// Each action in the first step after its rank's previous one and after what it needs: F the F of
/// the stage before; B and I the B or I of the stage after (of the last: its own F); W its own I.
/// Actions that can never run (a schedule that waits in a circle) are left out.
ScheduleGrid grid_of(const Schedule& schedule);

}  // namespace lockstep::gui
