// ScheduleGrid: a pipeline schedule as a grid of steps × ranks, in which every action is one step
// long. It shows the shape of the schedule without times.
#pragma once

#include <vector>

#include "core/schedule/schedule.hpp"

namespace lockstep::gui {

struct GridCell {
  int rank = 0;  // coordinate along "pp"
  int step = 0;
  Action action;
  int part = 0, parts = 1;  // of `parts` actions that run as one, this is number `part`
  bool operator==(const GridCell&) const = default;
};

struct ScheduleGrid {
  std::vector<GridCell> cells;  // by rank, then in the rank's order
  int ranks = 0, steps = 0;
  int stages_per_rank = 1;
  int idle() const;  // how many cells, steps of ranks, have no action
  bool operator==(const ScheduleGrid&) const = default;
};

/// Places each action in the first step after the previous action of its rank and after what it
/// needs. An F needs the F of the stage before; a B or I needs the B or I of the stage after, or,
/// on the last stage, its own F; a W needs its own I. Actions that can never run, because the
/// schedule waits in a circle, are left out.
ScheduleGrid grid_of(const Schedule& schedule);

}  // namespace lockstep::gui
