#include "gui/views/layouts_canvas.hpp"

#include <QMouseEvent>
#include <QToolTip>

#include "core/format/format.hpp"
#include "gui/draw/wrapped_text.hpp"
#include "gui/views/qt_text.hpp"

namespace lockstep::gui {

LayoutsCanvas::LayoutsCanvas(QWidget* parent) : Canvas(parent) {
  setAccessibleName("Layouts by time and memory");
  setMinimumHeight(120);
}

void LayoutsCanvas::set(std::vector<LayoutRow> rows, std::vector<LostFamily> lost, Bytes capacity) {
  rows_ = std::move(rows);
  lost_ = std::move(lost);
  capacity_ = capacity;
  chosen_ = -1;
  invalidate();
}

void LayoutsCanvas::choose(int row) {
  chosen_ = row < static_cast<int>(rows_.size()) ? row : -1;
  update();
}

LayoutsFrame LayoutsCanvas::frame() const {
  return layouts_frame(rows_, capacity_, QRectF(4, 4, width() - 8.0, height() - 8.0), text());
}

DisplayList LayoutsCanvas::draw() const {
  if (rows_.empty()) {
    DisplayList list;
    write_hint(list, QRectF(rect()), "The layouts of a search come here, by time and memory.",
               text());
    return list;
  }
  return draw_layouts(rows_, lost_, capacity_, frame(), text());
}

DisplayList LayoutsCanvas::draw_overlay() const {
  DisplayList list;
  if (chosen_ < 0) return list;
  const LayoutsFrame f = frame();
  const JudgedLayout& layout = *rows_[to_size(chosen_)].layout;
  if (layout.step_time.v > f.to) return list;
  const QPointF at = f.place(layout);
  list.outlines.push_back({QRectF(at.x() - 7, at.y() - 7, 14, 14), Ink::Accent, 2});
  return list;
}

void LayoutsCanvas::mousePressEvent(QMouseEvent* event) {
  const int row = frame().at(event->position(), rows_);
  if (row < 0) return;
  choose(row);
  if (on_chosen) on_chosen(row);
}

void LayoutsCanvas::mouseDoubleClickEvent(QMouseEvent* event) {
  const int row = frame().at(event->position(), rows_);
  if (row >= 0 && on_opened) on_opened(row);
}

void LayoutsCanvas::mouseMoveEvent(QMouseEvent* event) {
  const int at = frame().at(event->position(), rows_);
  if (at < 0) {
    QToolTip::hideText();
    return;
  }
  const LayoutRow& row = rows_[to_size(at)];
  std::string words = row.layout->name + "\n" + time_text(row.layout->step_time) + ", " +
                      bytes_text(row.layout->needed) +
                      (row.layout->simulated ? ", simulated" : ", estimated");
  if (!row.because.empty()) words += "\n" + row.because;
  QToolTip::showText(event->globalPosition().toPoint(), qt(words), this);
}

}  // namespace lockstep::gui
