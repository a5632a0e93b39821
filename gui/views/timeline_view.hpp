// TimelineView: the lanes over time, in which the user can pan, zoom, select, measure and follow
// links.
#pragma once

#include <optional>

#include "gui/draw/timeline_overlay.hpp"
#include "gui/model/session.hpp"
#include "gui/model/timeline/span_search.hpp"
#include "gui/views/canvas.hpp"
#include "gui/views/command.hpp"

class QScrollBar;

namespace lockstep::gui {

class TimelineView final : public Canvas, public CommandSource {
 public:
  explicit TimelineView(Session& session, QWidget* parent = nullptr);

  const TimelineFrame& frame() const { return frame_; }
  const TimelineLayout& layout_now() const { return layout_; }
  void show_time(SimTime begin, SimTime end);  // with a small margin
  void fit();                                  // shows the whole run
  /// Shows the selection in the middle of the window, or the whole run if it already does.
  void focus_selection();
  bool critical_path() const { return overlay_.critical_path; }
  void show_critical_path(bool show);
  /// Selects the next, or previous, span that `words` mean (see SpanQuery); false if there is none.
  bool find(const std::string& words, bool forward);
  /// Unfolds a row, scrolls to it, and highlights it until Escape is pressed.
  void show_row(const RowKey& key);
  std::vector<Command> row_commands();  // a command show_row() for each row, by its name
  /// Sets a function that is called with a description of what is under the mouse when it moves.
  void on_hover(std::function<void(const QString&)> tell) { tell_hover_ = std::move(tell); }

  QString commands_title() const override { return "Timeline"; }
  std::vector<Command> commands() override;
  std::vector<std::pair<QString, QString>> gestures() const override;
  QSize sizeHint() const override { return {1000, 500}; }

 protected:
  DisplayList draw() const override;
  DisplayList draw_overlay() const override;
  bool event(QEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;
  void wheelEvent(QWheelEvent* event) override;
  void mousePressEvent(QMouseEvent* event) override;
  void mouseMoveEvent(QMouseEvent* event) override;
  void mouseReleaseEvent(QMouseEvent* event) override;
  void mouseDoubleClickEvent(QMouseEvent* event) override;
  void contextMenuEvent(QContextMenuEvent* event) override;
  void leaveEvent(QEvent* event) override;

 private:
  enum class Drag { None, Pan, Area, Cursor, Row };
  void on_run();
  bool keep_scale(const RunView& before);
  void on_selection();
  void lay_out_rows();
  void set_axis(const TimeAxis& axis);
  void zoom(double factor);
  void zoom(double factor, double x);
  void pan(double share);
  void reveal();  // brings the selection into view with as little motion as possible
  void finish_click(QPointF at);
  void select_area(QPointF at, bool exact);
  void drag_row(QPointF at);
  void drop_row();
  SimTime time_at(QPointF at, bool exact) const;
  void step_along_lane(int by);
  void follow_link(bool forward);
  void range_of_selection();
  const Row* active_row() const;  // the row of the selected span, or the row under the mouse
  void pin_active_row();
  void move_active_rank(int by);
  void fold_all(bool fold);
  QString words_at(QPointF at, bool all) const;
  RowHeights row_heights() const;

  Session& session_;
  QScrollBar* scroll_bar_;
  RunPtr run_;
  TimelineLayout layout_;
  TimelineFrame frame_;
  TimelineOverlay overlay_;
  std::vector<Command> commands_;
  std::function<void(const QString&)> tell_hover_;
  std::optional<QPointF> hover_;
  Drag drag_ = Drag::None;
  std::optional<Row> dragged_;
  RowKey drop_above_;
  QPointF pressed_, last_;
};

}  // namespace lockstep::gui
