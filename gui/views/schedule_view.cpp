#include "gui/views/schedule_view.hpp"

#include <QKeyEvent>
#include <QMouseEvent>

#include "core/base/index_vector.hpp"
#include "core/lower/lower.hpp"

namespace lockstep::gui {

ScheduleView::ScheduleView(Session& session, QWidget* parent)
    : Canvas(parent), session_(session), scheduling_(*this) {
  setAccessibleName("Pipeline schedule, steps by ranks");
  connect(&session, &Session::runChanged, this, [this] { on_run(); });
  on_run();
}

void ScheduleView::on_run() {
  const RunPtr run = session_.run();
  current_.reset();
  const bool pipelined =
      run && run->scenario && run->scenario->strategy.pipeline_parallel_degree > 1;
  if (!pipelined) {
    scheduling_.cancel();
    grid_ = {};
    invalidate();
    return;
  }
  scheduling_.submit([this, run](const Cancelled&) -> Latest::Apply {
    return [this, grid = grid_of(lower_schedule(*run->scenario))] {
      grid_ = grid;
      invalidate();
    };
  });
}

DisplayList ScheduleView::draw() const { return draw_schedule(grid_, size(), text()); }

DisplayList ScheduleView::draw_overlay() const {
  DisplayList list;
  if (current_) {
    const GridFrame frame = GridFrame::fitting(grid_, size(), text());
    list.outlines.push_back({frame.box(grid_.cells[*current_]), Ink::Accent, 2});
  }
  return list;
}

void ScheduleView::mousePressEvent(QMouseEvent* event) {
  const GridFrame frame = GridFrame::fitting(grid_, size(), text());
  if (const auto cell = cell_at(grid_, frame, event->position())) point_at(*cell);
}

void ScheduleView::mouseMoveEvent(QMouseEvent* event) {
  const GridFrame frame = GridFrame::fitting(grid_, size(), text());
  const auto cell = cell_at(grid_, frame, event->position());
  setToolTip(cell ? QString::fromStdString(to_string(grid_.cells[*cell].action)) : QString());
}

/// Arrows move to the next action of the rank, or to the cell that is nearest in time on the next
/// rank.
void ScheduleView::keyPressEvent(QKeyEvent* event) {
  const int along = (event->key() == Qt::Key_Right) - (event->key() == Qt::Key_Left);
  const int across = (event->key() == Qt::Key_Down) - (event->key() == Qt::Key_Up);
  if ((along == 0 && across == 0) || grid_.cells.empty()) return Canvas::keyPressEvent(event);
  if (!current_) return point_at(0);
  const GridCell& here = grid_.cells[*current_];
  if (along != 0) {
    const std::size_t next = *current_ + to_size(along);
    if (next < grid_.cells.size() && grid_.cells[next].rank == here.rank) point_at(next);
    return;
  }
  std::optional<std::size_t> best;
  for (std::size_t i = 0; i < grid_.cells.size(); ++i) {
    const GridCell& cell = grid_.cells[i];
    if (cell.rank != here.rank + across) continue;
    if (!best || std::abs(cell.step - here.step) < std::abs(grid_.cells[*best].step - here.step)) {
      best = i;
    }
  }
  if (best) point_at(*best);
}

void ScheduleView::point_at(std::size_t cell) {
  current_ = cell;
  update();
  const RunPtr run = session_.run();
  const Action& action = grid_.cells[cell].action;
  for (SpanId i = 0; run && i < run->trace.spans.size(); ++i) {
    const TraceOp& op = run->lanes.op(run->trace.spans[i]);
    if (op.stage == action.stage && op.microbatch == action.microbatch &&
        op.phase == static_cast<std::uint8_t>(action.phase)) {
      return session_.point_at({i, std::nullopt, {}});
    }
  }
}

}  // namespace lockstep::gui
