#include "gui/views/timeline_view.hpp"

#include <QKeyEvent>
#include <QMouseEvent>
#include <QScrollBar>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>

namespace lockstep::gui {
namespace {

constexpr double kClickReach = 4;  // pixels: a shorter drag is a click
constexpr double kKeyPan = 0.15;   // of the visible width
constexpr double kKeyZoom = 0.75;
constexpr double kNarrowestGutter = 90, kWidestGutter = 260;

}  // namespace

TimelineView::TimelineView(Session& session, QWidget* parent)
    : Canvas(parent), session_(session), scroll_bar_(new QScrollBar(Qt::Vertical, this)) {
  setAccessibleName("Timeline");
  connect(scroll_bar_, &QScrollBar::valueChanged, this, [this](int y) { set_scroll(y); });
  connect(&session, &Session::runChanged, this, [this] { on_run(); });
  connect(&session, &Session::layoutChanged, this, [this] { lay_out_rows(); });
  connect(&session, &Session::cursorChanged, this, [this] { update(); });
  connect(&session, &Session::selectionChanged, this, [this] { update(); });
  on_run();
}

// ---------------------------------------------------------------- what is shown

void TimelineView::on_run() {
  const RunPtr before = run_;
  run_ = session_.run();
  // A new simulation of what is already on screen keeps the time that is looked at.
  const bool same_world = before && run_ && before->trace.rank_labels == run_->trace.rank_labels;
  const bool whole = before && frame_.axis.begin <= before->lanes.begin() &&
                     frame_.axis.end >= before->lanes.end();
  lay_out_rows();
  if (!same_world || whole) fit();
}

RowHeights TimelineView::row_heights() const {
  const double line = text().line_height;
  return {line + 4, line + 7, line + 1};
}

void TimelineView::lay_out_rows() {
  layout_ = run_ ? lay_out(*run_, session_.layout(), row_heights()) : TimelineLayout{};
  double widest = kNarrowestGutter;
  for (const auto* rows : {&layout_.pinned, &layout_.rows}) {
    for (const Row& row : *rows) widest = std::max(widest, text().width_of(row.label) + 38);
  }
  frame_.gutter = std::min(widest, kWidestGutter);
  frame_.size = size();
  frame_.ruler = text().line_height + 9;
  const int bar = scroll_bar_->sizeHint().width();
  frame_.axis.width = std::max(1.0, width() - frame_.gutter - bar);
  const int page = std::max(0, height() - static_cast<int>(frame_.rows_top(layout_)));
  scroll_bar_->setGeometry(width() - bar, 0, bar, height());
  scroll_bar_->setRange(0, std::max(0, static_cast<int>(layout_.height) - page));
  scroll_bar_->setPageStep(page);
  scroll_bar_->setSingleStep(24);
  frame_.scroll = scroll_bar_->value();
  invalidate();
}

void TimelineView::fit() {
  if (run_) show_time(run_->lanes.begin(), run_->lanes.end());
}

void TimelineView::show_time(SimTime begin, SimTime end) {
  set_axis(TimeAxis::fitting(begin, end, frame_.axis.width));
}

void TimelineView::set_axis(const TimeAxis& axis) {
  if (axis == frame_.axis) return;
  frame_.axis = axis;
  invalidate();
}

void TimelineView::set_scroll(double scroll) {
  if (scroll == frame_.scroll) return;
  frame_.scroll = scroll;
  invalidate();
}

void TimelineView::zoom(double factor, double x) {
  if (!run_) return;
  set_axis(frame_.axis.zoomed(factor, x - frame_.gutter, run_->lanes.end() - run_->lanes.begin()));
}

void TimelineView::resizeEvent(QResizeEvent* event) {
  lay_out_rows();
  Canvas::resizeEvent(event);
}

DisplayList TimelineView::draw() const {
  if (run_) return draw_timeline(*run_, layout_, frame_, text());
  DisplayList list;
  list.fill(QRectF(rect()), Ink::Background);
  list.text(QRectF(rect()), "Open a scenario, a run folder or a trace: Ctrl+O, or drop it here",
            Ink::Faint, Align::Center);
  return list;
}

DisplayList TimelineView::draw_overlay() const {
  DisplayList list;
  if (!run_) return list;
  const auto vertical = [&](double x, Ink ink, float width) {
    if (x >= frame_.gutter && x < frame_.gutter + frame_.axis.width) {
      list.line({x, 0}, {x, frame_.size.height()}, ink, width);
    }
  };
  if (const auto& range = session_.selection().range) {
    const double x0 = std::max(frame_.x_of(range->begin), frame_.gutter);
    const double x1 = std::min(frame_.x_of(range->end), frame_.gutter + frame_.axis.width);
    if (x0 < x1) {
      list.fill({x0, 0, x1 - x0, frame_.size.height()}, Ink::Wash);
    }
  }
  if (hover_ && drag_ == Drag::None) vertical(hover_->x(), Ink::Grid, 1);
  vertical(frame_.x_of(session_.cursor()), Ink::Accent, 2);
  return list;
}

// ---------------------------------------------------------------- mouse

void TimelineView::wheelEvent(QWheelEvent* event) {
  const double notches = (event->angleDelta().y() + event->angleDelta().x()) / 120.0;
  if (event->modifiers() & Qt::ControlModifier) {
    zoom(std::pow(kKeyZoom, notches), event->position().x());
  } else if (event->modifiers() & Qt::ShiftModifier || event->angleDelta().x() != 0) {
    set_axis(frame_.axis.panned(-60 * notches));
  } else {
    scroll_bar_->setValue(scroll_bar_->value() - static_cast<int>(48 * notches));
  }
  event->accept();
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  pressed_ = last_ = event->position();
  const bool pan = event->button() != Qt::LeftButton || event->modifiers() & Qt::ShiftModifier;
  drag_ = pan                             ? Drag::Pan
          : pressed_.y() < frame_.ruler   ? Drag::Cursor
          : pressed_.x() >= frame_.gutter ? Drag::Area
                                          : Drag::None;
  if (drag_ == Drag::Cursor) session_.set_cursor(frame_.time_at(pressed_.x()));
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  const QPointF at = event->position();
  hover_ = at;
  switch (drag_) {
    case Drag::Pan:
      set_axis(frame_.axis.panned(last_.x() - at.x()));
      scroll_bar_->setValue(scroll_bar_->value() + static_cast<int>(last_.y() - at.y()));
      break;
    case Drag::Cursor:
      session_.set_cursor(frame_.time_at(at.x()));
      break;
    case Drag::Area:
      if (std::abs(at.x() - pressed_.x()) >= kClickReach) {
        const SimTime a = frame_.time_at(pressed_.x()), b = frame_.time_at(at.x());
        session_.select({std::nullopt, TimeRange{std::min(a, b), std::max(a, b)}, {}});
      }
      break;
    case Drag::None:
      update();
      break;
  }
  last_ = at;
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  const QPointF at = event->position();
  const bool click = std::abs(at.x() - pressed_.x()) < kClickReach &&
                     std::abs(at.y() - pressed_.y()) < kClickReach;
  const Drag drag = std::exchange(drag_, Drag::None);
  if (click && event->button() == Qt::LeftButton && drag != Drag::Cursor) finish_click(at);
  update();
}

void TimelineView::finish_click(QPointF at) {
  if (!run_) return;
  if (at.x() < frame_.gutter) {
    const auto place = row_at(layout_, frame_, at);
    if (place && place->row->foldable) {
      session_.set_layout(toggled_fold(session_.layout(), place->row->key));
    }
    return;
  }
  session_.set_cursor(frame_.time_at(at.x()));
  session_.select({span_at(*run_, layout_, frame_, at), std::nullopt, {}});
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (!run_) return;
  if (const auto span = span_at(*run_, layout_, frame_, event->position())) {
    const Span& s = run_->trace.spans[*span];
    show_time(s.begin, s.end);
  }
}

void TimelineView::leaveEvent(QEvent*) {
  hover_.reset();
  update();
}

// ---------------------------------------------------------------- keys

void TimelineView::keyPressEvent(QKeyEvent* event) {
  const double middle = frame_.gutter + frame_.axis.width / 2;
  const double x = hover_ && hover_->x() >= frame_.gutter ? hover_->x() : middle;
  switch (event->key()) {
    case Qt::Key_W:
    case Qt::Key_Plus:
      zoom(kKeyZoom, x);
      break;
    case Qt::Key_S:
    case Qt::Key_Minus:
      zoom(1 / kKeyZoom, x);
      break;
    case Qt::Key_A:
    case Qt::Key_Left:
      set_axis(frame_.axis.panned(-kKeyPan * frame_.axis.width));
      break;
    case Qt::Key_D:
    case Qt::Key_Right:
      set_axis(frame_.axis.panned(kKeyPan * frame_.axis.width));
      break;
    case Qt::Key_0:
    case Qt::Key_Home:
      fit();
      break;
    case Qt::Key_Escape:
      session_.select({});
      break;
    default:
      Canvas::keyPressEvent(event);
  }
}

}  // namespace lockstep::gui
