#include "gui/draw/schedule_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "gui/draw/wrapped_text.hpp"

namespace lockstep::gui {
namespace {

Look look_of(Phase phase) {
  switch (phase) {
    case Phase::F:
      return Look::Forward;
    case Phase::B:
      return Look::Backward;
    case Phase::I:
      return Look::BackwardInput;
    case Phase::W:
      return Look::BackwardWeight;
    default:
      return Look::OtherCompute;
  }
}

}  // namespace

GridFrame GridFrame::fitting(const ScheduleGrid& grid, QSizeF size, const TextSize& text) {
  GridFrame frame;
  frame.gutter = text.width_of("stage 00") + 8;
  frame.heading = text.line_height + 4;
  const double width = (size.width() - frame.gutter - 8) / std::max(grid.steps, 1);
  const double height =
      (size.height() - frame.heading - text.line_height - 8) / std::max(grid.ranks, 1);
  frame.cell_width = std::clamp(std::floor(width), 3.0, 44.0);
  frame.cell_height = std::clamp(std::floor(height), 4.0, 30.0);
  return frame;
}

QRectF GridFrame::box(const GridCell& cell) const {
  const double part = (cell_height - 1) / cell.parts;
  return {gutter + cell.step * cell_width, heading + cell.rank * cell_height + cell.part * part,
          cell_width - 1, part - (cell.parts > 1 ? 0.5 : 0)};
}

DisplayList draw_schedule(const ScheduleGrid& grid, QSizeF size, const TextSize& text) {
  DisplayList list;
  list.fill({0, 0, size.width(), size.height()}, Ink::Background);
  if (grid.cells.empty()) {
    write_hint(list, {0, 0, size.width(), size.height()},
               "A pipeline's schedule comes here, an action a cell; this run has no pipeline",
               text);
    return list;
  }
  const GridFrame frame = GridFrame::fitting(grid, size, text);
  list.fill(
      {frame.gutter, frame.heading, grid.steps * frame.cell_width, grid.ranks * frame.cell_height},
      Ink::Idle, Hatch::Rising);
  const int every =
      std::max(1, static_cast<int>(std::ceil(text.width_of("000") / frame.cell_width / 5.0)) * 5);
  for (int step = 0; step < grid.steps; step += every) {
    list.text({frame.gutter + step * frame.cell_width, 0, 60, frame.heading}, std::to_string(step),
              Ink::Faint);
  }
  if (frame.cell_height >= text.line_height - 3) {
    for (int rank = 0; rank < grid.ranks; ++rank) {
      list.text({4, frame.heading + rank * frame.cell_height, frame.gutter - 8, frame.cell_height},
                "pp" + std::to_string(rank));
    }
  }
  for (const GridCell& cell : grid.cells) {
    const Look look = look_of(cell.action.phase);
    const QRectF box = frame.box(cell);
    list.fill(box, ink_of(look), Hatch::None, 1);
    std::string words(letters(look));
    words += std::to_string(cell.action.microbatch);
    // With several stages on a rank, an action is written as in PyTorch: stage, letter, microbatch.
    const std::string full = std::to_string(cell.action.stage) + words;
    if (grid.stages_per_rank > 1 && text.width_of(full) <= box.width()) words = full;
    if (text.width_of(words) <= box.width() && text.line_height - 3 <= box.height()) {
      list.texts.push_back({box, words, ink_of(look), true, Align::Center});
    }
  }
  const double bottom = frame.heading + grid.ranks * frame.cell_height;
  char share[96];
  std::snprintf(share, sizeof share,
                "%d steps, %d of %d slots idle (%.1f %%), every action one step", grid.steps,
                grid.idle(), grid.steps * grid.ranks,
                100.0 * grid.idle() / (grid.steps * grid.ranks));
  list.text({frame.gutter, bottom + 2, size.width() - frame.gutter, text.line_height + 4}, share,
            Ink::Faint);
  return list;
}

std::optional<std::size_t> cell_at(const ScheduleGrid& grid, const GridFrame& frame,
                                   QPointF point) {
  for (std::size_t i = 0; i < grid.cells.size(); ++i) {
    if (frame.box(grid.cells[i]).contains(point)) return i;
  }
  return std::nullopt;
}

}  // namespace lockstep::gui
