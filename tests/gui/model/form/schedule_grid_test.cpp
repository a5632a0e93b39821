#include "gui/model/form/schedule_grid.hpp"

#include <map>
#include <set>

#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

Schedule schedule_of(const std::string& name, int p, int m, int v = 1) {
  const std::string text =
      "[model]\npreset = \"synthetic\"\n[parallelism]\npipeline_parallel_degree = " +
      std::to_string(p) + "\npipeline_parallel_schedule = \"" + name +
      "\"\npipeline_parallel_microbatches = " + std::to_string(m) +
      "\npipeline_parallel_virtual_stages = " + std::to_string(v) +
      "\n[costs]\nforward = 1.0\nbackward_input = 1.0\nbackward_weight = 1.0\np2p = 0.0\n";
  const LoadedScenario loaded = parse_scenario(text, "test.toml", {});
  REQUIRE(loaded.ok());
  return lower_schedule(loaded.points.front().scenario);
}

TEST_CASE("on the grid a pipeline takes 2 (m + p - 1) steps, GPipe and 1F1B alike",
          "[gui][model]") {
  for (const char* name : {"GPipe", "1F1B"}) {
    for (const int p : {2, 4, 7}) {
      for (const int m : {p, 2 * p}) {
        const ScheduleGrid grid = grid_of(schedule_of(name, p, m));
        INFO(name << " p=" << p << " m=" << m);
        CHECK(grid.ranks == p);
        CHECK(grid.steps == 2 * (m + p - 1));
        CHECK(grid.cells.size() == static_cast<std::size_t>(2 * m * p));
        CHECK(grid.idle() == 2 * (p - 1) * p);
      }
    }
  }
}

TEST_CASE("every action has a step of its own and comes after what it needs", "[gui][model]") {
  for (const char* name : {"ZB-H1", "Interleaved1F1B", "ZBVZeroBubble", "DualPipeV"}) {
    const bool two = std::string(name) != "ZB-H1";
    const Schedule schedule = schedule_of(name, 4, 8, two ? 2 : 1);
    const ScheduleGrid grid = grid_of(schedule);
    INFO(name);
    std::size_t actions = 0;
    for (const Actions& list : schedule.actions) actions += list.size();
    CHECK(grid.cells.size() == actions);
    std::set<std::pair<int, int>> taken;
    std::map<std::pair<int, int>, int> forward;
    for (const GridCell& cell : grid.cells) {
      if (cell.part == 0) CHECK(taken.insert({cell.rank, cell.step}).second);
      if (cell.action.phase == Phase::F) {
        forward[{cell.action.stage, cell.action.microbatch}] = cell.step;
      }
    }
    for (const auto& [key, step] : forward) {
      if (key.first > 0) CHECK(forward.at({key.first - 1, key.second}) < step);
    }
  }
}

TEST_CASE("a run without a pipeline has an empty grid", "[gui][model]") {
  CHECK(grid_of(Schedule{}) == ScheduleGrid{});
}

}  // namespace
}  // namespace lockstep::gui
