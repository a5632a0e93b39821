// ScheduleView: the pipeline schedule of the run as a grid of steps × ranks. A click shows the
// span.
#pragma once

#include "gui/draw/schedule_drawing.hpp"
#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"

namespace lockstep::gui {

class ScheduleView final : public Canvas {
 public:
  explicit ScheduleView(Session& session, QWidget* parent = nullptr);
  const ScheduleGrid& grid() const { return grid_; }
  QSize sizeHint() const override { return {600, 180}; }

 protected:
  DisplayList draw() const override;
  DisplayList draw_overlay() const override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;

 private:
  void on_run();
  void point_at(std::size_t cell);

  Session& session_;
  ScheduleGrid grid_;
  std::optional<std::size_t> current_;  // index of the current cell
  Latest scheduling_;                   // schedules that are found by a search take a while
};

}  // namespace lockstep::gui
