#include "gui/views/timeline_view.hpp"

#include <QContextMenuEvent>
#include <QHelpEvent>
#include <QKeyEvent>
#include <QMenu>
#include <QMouseEvent>
#include <QScrollBar>
#include <QToolTip>
#include <QWheelEvent>
#include <algorithm>
#include <cmath>
#include <set>

#include "gui/model/run/describe.hpp"

namespace lockstep::gui {
namespace {

constexpr double kClickReach = 4;  // pixels; a shorter drag counts as a click
constexpr double kSnapReach = 7;
constexpr double kWheelZoom = 0.8;
constexpr int kLeastShare = 10;   // a run that takes a smaller part of the window is shown larger
constexpr double kTallest = 2.5;  // rows grow to at most so many times their height
constexpr double kNarrowestGutter = 90, kWidestGutter = 280;

/// The axis, moved as far as it must be for a part of the run to be in sight: nobody finds the way
/// back from an empty picture, where the mouse zooms about nothing.
TimeAxis with_in_sight(TimeAxis axis, const Lanes& lanes) {
  const SimTime least = std::min(axis.length(), lanes.end() - lanes.begin()) / 8;
  SimTime shift{};
  if (axis.end < lanes.begin() + least) shift = lanes.begin() + least - axis.end;
  if (axis.begin > lanes.end() - least) shift = lanes.end() - least - axis.begin;
  axis.begin += shift;
  axis.end += shift;
  return axis;
}

}  // namespace

TimelineView::TimelineView(Session& session, QWidget* parent)
    : Canvas(parent), session_(session), scroll_bar_(new QScrollBar(Qt::Vertical, this)) {
  setAccessibleName("Timeline");
  setAccessibleDescription(
      "Operations of every rank against time. The panel Table lists the same in rows.");
  commands_ = commands();
  scroll_bar_->setAccessibleName("Scroll the timeline's rows");
  connect(scroll_bar_, &QScrollBar::valueChanged, this, [this](int y) {
    frame_.scroll = y;
    invalidate();
  });
  connect(&session, &Session::runChanged, this, [this] { on_run(); });
  connect(&session, &Session::layoutChanged, this, [this] { lay_out_rows(); });
  connect(&session, &Session::cursorChanged, this, [this] { update(); });
  connect(&session, &Session::selectionChanged, this, [this] { on_selection(); });
  connect(&session, &Session::marksChanged, this, [this] { update(); });
  connect(&session, &Session::pointedAt, this, [this] { reveal(); });
  on_run();
}

// ---------------------------------------------------------------- what is shown

void TimelineView::on_run() {
  const RunPtr before = run_;
  run_ = session_.run();
  on_selection();
  lay_out_rows();
  if (run_ && !(before && keep_scale(*before))) fit();
}

/// Keeps the scale of the time, so that a step that got shorter looks shorter: if the run is a new
/// simulation of what was shown, or another run of the same ranks. Returns false if the run does
/// not fit into a window that showed the whole of the one before, or would be lost in it.
bool TimelineView::keep_scale(const RunView& before) {
  const bool related =
      before.path == run_->path || before.trace.rank_labels == run_->trace.rank_labels;
  if (!related) return false;
  const bool whole =
      frame_.axis.begin <= before.lanes.begin() && frame_.axis.end >= before.lanes.end();
  TimeAxis axis = frame_.axis;
  const SimTime shift = run_->lanes.begin() - before.lanes.begin();
  axis.begin += shift;
  axis.end += shift;
  const SimTime length = run_->lanes.end() - run_->lanes.begin();
  if (whole && (run_->lanes.end() > axis.end || kLeastShare * length < axis.length())) return false;
  set_axis(axis);
  return true;
}

void TimelineView::on_selection() {
  const Selection& selection = session_.selection();
  overlay_.span = selection.span;
  overlay_.links = run_ && selection.span ? links_of(*run_, *selection.span) : std::vector<Link>();
  overlay_.area_begin.reset();
  overlay_.area_end.reset();
  if (selection.range) {
    overlay_.area_begin = selection.range->begin;
    overlay_.area_end = selection.range->end;
  }
  overlay_.area_ranks = selection.ranks;
  update();
}

void TimelineView::show_critical_path(bool show) {
  overlay_.critical_path = show;
  update();
}

RowHeights TimelineView::row_heights() const {
  const double line = text().line_height;
  return {line + 4, line + 7, line + 1};
}

void TimelineView::lay_out_rows() {
  frame_.ruler = text().line_height + 9;
  layout_ = {};
  if (run_) {
    // Rows grow to fill the height that there is.
    RowHeights heights = row_heights();
    layout_ = lay_out(*run_, session_.layout(), heights);
    const double natural = layout_.pinned_height + layout_.height;
    const double growth = std::min((height() - frame_.ruler) / std::max(natural, 1.0), kTallest);
    if (growth > 1) {
      heights.rank = std::floor(heights.rank * growth);
      heights.stream = std::floor(heights.stream * growth);
      layout_ = lay_out(*run_, session_.layout(), heights);
    }
  }
  double widest = kNarrowestGutter;
  for (const auto* rows : {&layout_.pinned, &layout_.rows}) {
    for (const Row& row : *rows) widest = std::max(widest, text().width_of(row.label) + 38);
  }
  frame_.gutter = std::min(widest, kWidestGutter);
  frame_.size = size();
  const int bar = scroll_bar_->sizeHint().width();
  frame_.axis.width = std::max(1.0, width() - frame_.gutter - bar);
  const int page = std::max(0, height() - static_cast<int>(frame_.rows_top(layout_)));
  scroll_bar_->setGeometry(width() - bar, 0, bar, height());
  scroll_bar_->setRange(0, std::max(0, static_cast<int>(std::ceil(layout_.height)) - page));
  scroll_bar_->setPageStep(page);
  scroll_bar_->setSingleStep(24);
  frame_.scroll = scroll_bar_->value();
  session_.set_axis(frame_.axis, frame_.gutter);
  invalidate();
}

void TimelineView::fit() {
  if (run_) show_time(run_->lanes.begin(), run_->lanes.end());
}

void TimelineView::show_time(SimTime begin, SimTime end) {
  set_axis(TimeAxis::fitting(begin, end, frame_.axis.width));
}

void TimelineView::set_axis(const TimeAxis& wanted) {
  const TimeAxis axis = run_ ? with_in_sight(wanted, run_->lanes) : wanted;
  if (axis == frame_.axis) return;
  frame_.axis = axis;
  session_.set_axis(frame_.axis, frame_.gutter);
  invalidate();
}

void TimelineView::zoom(double factor, double x) {
  if (!run_) return;
  set_axis(frame_.axis.zoomed(factor, x - frame_.gutter, run_->lanes.end() - run_->lanes.begin()));
}

void TimelineView::pan(double share) { set_axis(frame_.axis.panned(share * frame_.axis.width)); }

void TimelineView::reveal() {
  if (!run_) return;
  const Selection& selection = session_.selection();
  std::optional<TimeRange> time = selection.range;
  std::optional<Rank> rank;
  if (selection.span) {
    const Span& span = run_->trace.spans[*selection.span];
    time = TimeRange{span.begin, span.end};
    rank = span.rank;
  } else if (!selection.ranks.empty()) {
    rank = selection.ranks.front();
  }
  if (time) {
    const SimTime length = time->end - time->begin;
    const bool tiny = length > SimTime{} && length.count() * 60 < frame_.axis.length().count();
    if (tiny || length > frame_.axis.length()) {
      const SimTime around = std::max(length, TimeAxis::kShortest) * 3;
      show_time(time->begin - around, time->end + around);
    } else if (time->begin < frame_.axis.begin || time->end > frame_.axis.end) {
      const SimTime middle = time->begin + length / 2;
      set_axis({middle - frame_.axis.length() / 2, middle + frame_.axis.length() / 2,
                frame_.axis.width});
    }
  }
  for (const Row& row : layout_.rows) {
    if (!rank || !row.lane || row.lane->rank != *rank) continue;
    const int page = scroll_bar_->pageStep(), top = scroll_bar_->value();
    if (row.y < top || row.y + row.height > top + page) {
      scroll_bar_->setValue(static_cast<int>(row.y + row.height / 2) - page / 2);
    }
    break;
  }
  update();
}

void TimelineView::show_row(const RowKey& key) {
  if (!run_) return;
  session_.set_layout(revealing(*run_, session_.layout(), key));
  overlay_.found = key;
  for (const Row& row : layout_.rows) {
    if (row.key != key) continue;
    scroll_bar_->setValue(static_cast<int>(row.y + row.height / 2) - scroll_bar_->pageStep() / 2);
  }
  update();
}

std::vector<Command> TimelineView::row_commands() {
  std::vector<Command> commands;
  if (!run_) return commands;
  for (const RowKey& key : all_rows(*run_)) {
    commands.push_back({QString::fromStdString(key), {}, [this, key] { show_row(key); }});
  }
  return commands;
}

void TimelineView::resizeEvent(QResizeEvent* event) {
  lay_out_rows();
  Canvas::resizeEvent(event);
}

DisplayList TimelineView::draw() const {
  DisplayList list;
  if (run_) {
    list = draw_timeline(*run_, layout_, frame_, text());
    if (run_->trace.spans.empty()) {
      list.text(QRectF(rect()), "There are no spans here: the trace tells of memory only (Memory)",
                Ink::Faint, Align::Center);
    }
    return list;
  }
  list.fill(QRectF(rect()), Ink::Background);
  list.text(QRectF(rect()), "Open a scenario, a run folder or a trace: Ctrl+O, or drop it here",
            Ink::Faint, Align::Center);
  return list;
}

DisplayList TimelineView::draw_overlay() const {
  if (!run_) return {};
  TimelineOverlay overlay = overlay_;
  overlay.cursor = session_.cursor();
  overlay.marks = session_.marks();
  if (hover_ && drag_ == Drag::None) overlay.hover_x = hover_->x();
  return gui::draw_overlay(*run_, layout_, frame_, text(), overlay);
}

// ---------------------------------------------------------------- mouse

SimTime TimelineView::time_at(QPointF at, bool exact) const {
  const auto edge = exact ? std::nullopt : snap(*run_, layout_, frame_, at, kSnapReach);
  return edge.value_or(frame_.time_at(at.x()));
}

void TimelineView::wheelEvent(QWheelEvent* event) {
  const double notches = (event->angleDelta().y() + event->angleDelta().x()) / 120.0;
  if (event->modifiers() & Qt::ControlModifier) {
    zoom(std::pow(kWheelZoom, notches), event->position().x());
  } else if (event->modifiers() & Qt::ShiftModifier || event->angleDelta().x() != 0) {
    set_axis(frame_.axis.panned(-60 * notches));
  } else {
    scroll_bar_->setValue(scroll_bar_->value() - static_cast<int>(48 * notches));
  }
  event->accept();
}

void TimelineView::mousePressEvent(QMouseEvent* event) {
  if (!run_ || event->button() == Qt::RightButton) return;
  pressed_ = last_ = event->position();
  const bool pan = event->button() != Qt::LeftButton || event->modifiers() & Qt::ShiftModifier;
  drag_ = pan                            ? Drag::Pan
          : pressed_.x() < frame_.gutter ? Drag::Row
          : pressed_.y() < frame_.ruler  ? Drag::Cursor
                                         : Drag::Area;
  if (drag_ == Drag::Cursor) session_.set_cursor(frame_.time_at(pressed_.x()));
  dragged_.reset();
  if (drag_ != Drag::Row) return;
  const auto place = row_at(layout_, frame_, pressed_);
  if (place && place->row->kind != Row::Kind::Group) dragged_ = *place->row;
}

void TimelineView::mouseMoveEvent(QMouseEvent* event) {
  const QPointF at = event->position();
  const bool exact = event->modifiers() & Qt::AltModifier;
  hover_ = at;
  switch (drag_) {
    case Drag::Pan:
      set_axis(frame_.axis.panned(last_.x() - at.x()));
      scroll_bar_->setValue(scroll_bar_->value() + static_cast<int>(last_.y() - at.y()));
      break;
    case Drag::Cursor:
      session_.set_cursor(time_at(at, exact));
      break;
    case Drag::Area:
      if (std::abs(at.x() - pressed_.x()) >= kClickReach) select_area(at, exact);
      break;
    case Drag::Row:
      drag_row(at);
      break;
    case Drag::None:
      if (tell_hover_) tell_hover_(words_at(at, false));
      update();
      break;
  }
  last_ = at;
}

void TimelineView::select_area(QPointF at, bool exact) {
  const SimTime a = time_at(pressed_, exact), b = time_at(at, exact);
  std::set<Rank> ranks;
  const double top = std::min(pressed_.y(), at.y()), bottom = std::max(pressed_.y(), at.y());
  for (const auto* rows : {&layout_.pinned, &layout_.rows}) {
    for (const Row& row : *rows) {
      const auto place = place_of(layout_, frame_, row);
      if (place && row.lane && place->bottom() > top && place->top() < bottom) {
        ranks.insert(row.lane->rank);
      }
    }
  }
  session_.select({std::nullopt, TimeRange{std::min(a, b), std::max(a, b)},
                   std::vector<Rank>(ranks.begin(), ranks.end())});
}

void TimelineView::drag_row(QPointF at) {
  if (!dragged_ || (!overlay_.drop && std::abs(at.y() - pressed_.y()) < kClickReach)) return;
  const double top = dragged_->pinned ? frame_.ruler : frame_.rows_top(layout_) - frame_.scroll;
  const Gap gap = gap_near(*run_, layout_, *dragged_, at.y() - top);
  drop_above_ = gap.next;
  overlay_.drop = std::clamp(gap.y + top, frame_.ruler, static_cast<double>(height()));
  setCursor(Qt::ClosedHandCursor);
  update();
}

void TimelineView::drop_row() {
  unsetCursor();
  if (dragged_ && overlay_.drop) {
    session_.set_layout(dropped(*run_, session_.layout(), *dragged_, drop_above_));
  }
  overlay_.drop.reset();
  dragged_.reset();
}

void TimelineView::mouseReleaseEvent(QMouseEvent* event) {
  const QPointF at = event->position();
  const bool click = std::abs(at.x() - pressed_.x()) < kClickReach &&
                     std::abs(at.y() - pressed_.y()) < kClickReach;
  const Drag drag = std::exchange(drag_, Drag::None);
  const bool moved_row = overlay_.drop.has_value();
  if (drag == Drag::Row) drop_row();
  if (click && !moved_row && event->button() == Qt::LeftButton && drag != Drag::Cursor) {
    finish_click(at);
  }
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
  session_.select({span_at(layout_, frame_, at), std::nullopt, {}});
}

void TimelineView::mouseDoubleClickEvent(QMouseEvent* event) {
  if (!run_) return;
  if (const auto span = span_at(layout_, frame_, event->position())) {
    const Span& s = run_->trace.spans[*span];
    show_time(s.begin, s.end);
  }
}

void TimelineView::contextMenuEvent(QContextMenuEvent* event) {
  const auto place = row_at(layout_, frame_, event->pos());
  if (!place) return;
  const Row row = *place->row;
  QMenu menu(this);
  if (row.foldable) {
    menu.addAction(row.folded ? "Unfold" : "Fold", this,
                   [this, row] { session_.set_layout(toggled_fold(session_.layout(), row.key)); });
  }
  if (row.kind != Row::Kind::Group) {
    menu.addAction(row.pinned ? "Unpin" : "Pin to the top", this,
                   [this, row] { session_.set_layout(toggled_pin(session_.layout(), row.key)); });
    menu.addAction("Move rank up", this, [this, row] {
      session_.set_layout(moved(*run_, session_.layout(), row.rank, -1));
    });
    menu.addAction("Move rank down", this, [this, row] {
      session_.set_layout(moved(*run_, session_.layout(), row.rank, +1));
    });
  }
  menu.addSeparator();
  menu.addAction("Fold all ranks", this, [this] { fold_all(true); });
  menu.addAction("Unfold all ranks", this, [this] { fold_all(false); });
  menu.exec(event->globalPos());
}

QString TimelineView::words_at(QPointF at, bool all) const {
  if (!run_ || at.x() < frame_.gutter) return {};
  if (const auto span = span_at(layout_, frame_, at)) {
    return QString::fromStdString(all ? text_of(facts_of(*run_, *span)) : summary(*run_, *span));
  }
  const auto place = row_at(layout_, frame_, at);
  if (!place || !place->row->lane || place->row->kind == Row::Kind::Stream) return {};
  const auto [step, bubble] = bubble_at(*run_, place->row->rank, frame_.time_at(at.x()));
  if (!bubble) return {};
  return QString::fromStdString(all ? text_of(facts_of(*run_, *step, *bubble))
                                    : summary(*step, *bubble));
}

bool TimelineView::event(QEvent* event) {
  if (event->type() == QEvent::ToolTip) {
    const auto* help = static_cast<QHelpEvent*>(event);
    QToolTip::showText(help->globalPos(), words_at(help->pos(), true), this);
    return true;
  }
  return Canvas::event(event);
}

void TimelineView::leaveEvent(QEvent*) {
  hover_.reset();
  if (tell_hover_) tell_hover_({});
  update();
}

}  // namespace lockstep::gui
