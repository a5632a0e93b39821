#include "gui/draw/schedule_drawing.hpp"

#include "tests/catch.hpp"

namespace lockstep::gui {
namespace {

ScheduleGrid small_grid() {
  // Two ranks, one microbatch: F0 . . B0 over . F0 B0 .
  Schedule schedule;
  schedule.rank_of_stage = {0, 1};
  schedule.actions = {{{Phase::F, 0, 0}, {Phase::B, 0, 0}}, {{Phase::F, 1, 0}, {Phase::B, 1, 0}}};
  return grid_of(schedule);
}

TEST_CASE("a grid has a box per action, on its rank and step", "[gui][draw]") {
  const ScheduleGrid grid = small_grid();
  CHECK(grid.steps == 4);
  CHECK(grid.idle() == 4);
  const TextSize text{7, 16};
  const QSizeF size(400, 200);
  const GridFrame frame = GridFrame::fitting(grid, size, text);
  const std::string picture = print(draw_schedule(grid, size, text));
  CHECK_THAT(picture, ContainsSubstring("F spans=1"));
  CHECK_THAT(picture, ContainsSubstring("\"pp1\""));
  CHECK_THAT(picture, ContainsSubstring("4 steps, 4 of 8 slots idle (50.0 %)"));
  for (std::size_t i = 0; i < grid.cells.size(); ++i) {
    CHECK(cell_at(grid, frame, frame.box(grid.cells[i]).center()) == i);
  }
  CHECK_FALSE(cell_at(grid, frame, {frame.gutter + 2.5 * frame.cell_width, frame.heading + 5}));
}

TEST_CASE("a run without a schedule says so", "[gui][draw]") {
  CHECK_THAT(print(draw_schedule({}, {300, 100}, {7, 16})), ContainsSubstring("no pipeline"));
}

}  // namespace
}  // namespace lockstep::gui
