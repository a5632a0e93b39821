#include "gui/model/form/schedule_grid.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <tuple>

#include "core/base/index_vector.hpp"
#include "core/schedule/inputs.hpp"

namespace lockstep::gui {
namespace {

enum class Done : std::uint8_t { Forward, InputGradient };
using Key = std::tuple<Done, Stage, Microbatch>;

class GridBuilder {
 public:
  explicit GridBuilder(const Schedule& schedule) : schedule_(schedule), inputs_(schedule) {}

  ScheduleGrid build() {
    const std::size_t ranks = schedule_.actions.size();
    std::vector<std::size_t> next(ranks, 0);
    std::vector<int> free_at(ranks, 0);
    std::vector<std::vector<GridCell>> cells(ranks);
    for (bool progress = true; progress;) {
      progress = false;
      for (std::size_t r = 0; r < ranks; ++r) {
        while (const int parts = place(r, next[r], free_at[r], cells[r])) {
          next[r] += to_size(parts);
          progress = true;
        }
      }
    }
    ScheduleGrid grid;
    grid.ranks = static_cast<int>(ranks);
    for (const auto& list : cells) grid.cells.insert(grid.cells.end(), list.begin(), list.end());
    grid.steps = *std::max_element(free_at.begin(), free_at.end());
    grid.stages_per_rank =
        static_cast<int>(schedule_.rank_of_stage.size() / std::max<std::size_t>(ranks, 1));
    return grid;
  }

 private:
  /// Places the actions from `at` on that run as one. Returns their number; 0 if they must wait, or
  /// if none is left.
  int place(std::size_t rank, std::size_t at, int& free_at, std::vector<GridCell>& cells) {
    const Actions& actions = schedule_.actions[rank];
    if (at >= actions.size()) return 0;
    int parts = 1, step = free_at;
    while (actions[at + to_size(parts) - 1].overlaps_next) ++parts;
    for (int i = 0; i < parts; ++i) {
      const int ready = ready_at(actions[at + to_size(i)]);
      if (ready < 0 || !inputs_.ready(actions[at + to_size(i)])) return 0;
      step = std::max(step, ready);
    }
    for (int i = 0; i < parts; ++i) {
      const Action& action = actions[at + to_size(i)];
      cells.push_back({static_cast<int>(rank), step, action, i, parts});
      inputs_.run(action);
      if (action.phase == Phase::F) note({Done::Forward, action.stage, action.microbatch}, step);
      if (action.phase == Phase::B || action.phase == Phase::I) {
        note({Done::InputGradient, action.stage, action.microbatch}, step);
      }
    }
    free_at = step + 1;
    return parts;
  }

  /// Of a stage that all ranks share, the last part counts.
  void note(const Key& key, int step) {
    int& done = done_.try_emplace(key, step).first->second;
    done = std::max(done, step);
  }

  /// The first step in which the action may run; -1 if that is not known yet.
  int ready_at(const Action& a) const {
    switch (a.phase) {
      case Phase::F:
        return schedule_.is_first(a.stage) ? 0 : after(Done::Forward, a.stage - 1, a.microbatch);
      case Phase::B:
      case Phase::I:
        return schedule_.is_last(a.stage) ? after(Done::Forward, a.stage, a.microbatch)
                                          : after(Done::InputGradient, a.stage + 1, a.microbatch);
      case Phase::W:
        return after(Done::InputGradient, a.stage, a.microbatch);
      default:
        return 0;
    }
  }
  int after(Done what, Stage stage, Microbatch microbatch) const {
    const auto found = done_.find({what, stage, microbatch});
    return found == done_.end() ? -1 : found->second + 1;
  }

  const Schedule& schedule_;
  Inputs inputs_;
  std::map<Key, int> done_;
};

}  // namespace

int ScheduleGrid::idle() const {
  int busy = 0;
  for (const GridCell& cell : cells) busy += cell.part == 0;
  return ranks * steps - busy;
}

ScheduleGrid grid_of(const Schedule& schedule) {
  return schedule.empty() ? ScheduleGrid{} : GridBuilder(schedule).build();
}

}  // namespace lockstep::gui
