// TimelineView: lanes against time; pan, zoom, select.
#pragma once

#include <optional>

#include "gui/draw/timeline_drawing.hpp"
#include "gui/model/session.hpp"
#include "gui/views/canvas.hpp"

class QScrollBar;

namespace lockstep::gui {

class TimelineView final : public Canvas {
 public:
  explicit TimelineView(Session& session, QWidget* parent = nullptr);

  const TimelineFrame& frame() const { return frame_; }
  const TimelineLayout& layout_now() const { return layout_; }
  void show_time(SimTime begin, SimTime end);  // with a small margin
  void fit();                                  // the whole run
  QSize sizeHint() const override { return {1000, 500}; }

 protected:
  DisplayList draw() const override;
  DisplayList draw_overlay() const override;
  void resizeEvent(QResizeEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  enum class Drag { None, Pan, Area, Cursor };
  void on_run();
  void lay_out_rows();
  void set_axis(const TimeAxis& axis);
  void set_scroll(double scroll);
  void zoom(double factor, double x);
  void finish_click(QPointF at);
  RowHeights row_heights() const;

  Session& session_;
  QScrollBar* scroll_bar_;
  RunPtr run_;
  TimelineLayout layout_;
  TimelineFrame frame_;
  std::optional<QPointF> hover_;
  Drag drag_ = Drag::None;
  QPointF pressed_, last_;
};

}  // namespace lockstep::gui
