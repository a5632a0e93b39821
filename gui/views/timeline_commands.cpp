// The commands of the timeline and their keys, which are those of Perfetto, Tracy and Nsight
// Systems where these agree.
#include <QKeyEvent>
#include <QScrollBar>
#include <algorithm>

#include "gui/views/timeline_view.hpp"

namespace lockstep::gui {
namespace {

constexpr double kPan = 0.15;  // of the visible width
constexpr double kZoom = 0.75;

}  // namespace

std::vector<Command> TimelineView::commands() {
  using K = QKeySequence;
  const auto key = [](int k) { return K(static_cast<Qt::Key>(k)); };
  return {
      {"Zoom in",
       {key(Qt::Key_W), key(Qt::Key_Plus), K("Ctrl++"), K("Ctrl+=")},
       [this] { zoom(kZoom); }},
      {"Zoom out", {key(Qt::Key_S), key(Qt::Key_Minus), K("Ctrl+-")}, [this] { zoom(1 / kZoom); }},
      {"Earlier", {key(Qt::Key_A), key(Qt::Key_Left)}, [this] { pan(-kPan); }},
      {"Later", {key(Qt::Key_D), key(Qt::Key_Right)}, [this] { pan(kPan); }},
      {"Rows up",
       {key(Qt::Key_Up)},
       [this] { scroll_bar_->triggerAction(QScrollBar::SliderSingleStepSub); }},
      {"Rows down",
       {key(Qt::Key_Down)},
       [this] { scroll_bar_->triggerAction(QScrollBar::SliderSingleStepAdd); }},
      {"Page up",
       {key(Qt::Key_PageUp)},
       [this] { scroll_bar_->triggerAction(QScrollBar::SliderPageStepSub); }},
      {"Page down",
       {key(Qt::Key_PageDown)},
       [this] { scroll_bar_->triggerAction(QScrollBar::SliderPageStepAdd); }},
      {"Show the whole run", {key(Qt::Key_0), key(Qt::Key_Home)}, [this] { fit(); }},
      {"Show the selection; again: the whole run", {key(Qt::Key_F)}, [this] { focus_selection(); }},
      {"Next span of the lane", {key(Qt::Key_Period)}, [this] { step_along_lane(+1); }},
      {"Previous span of the lane", {key(Qt::Key_Comma)}, [this] { step_along_lane(-1); }},
      {"Follow to what waits for the span",
       {key(Qt::Key_BracketRight)},
       [this] { follow_link(true); }},
      {"Follow back to what the span waited for",
       {key(Qt::Key_BracketLeft)},
       [this] { follow_link(false); }},
      {"Select the time of the span", {key(Qt::Key_R)}, [this] { range_of_selection(); }},
      {"Mark the selection or the cursor; again: unmark",
       {key(Qt::Key_M)},
       [this] { session_.toggle_mark(); }},
      {"Next mark", {key(Qt::Key_N)}, [this] { session_.go_to_mark(true); }},
      {"Previous mark", {K("Shift+N")}, [this] { session_.go_to_mark(false); }},
      {"Critical path", {key(Qt::Key_C)}, [this] { show_critical_path(!critical_path()); }},
      {"Pin or unpin the row", {key(Qt::Key_P)}, [this] { pin_active_row(); }},
      {"Move the rank up", {K("Alt+Up")}, [this] { move_active_rank(-1); }},
      {"Move the rank down", {K("Alt+Down")}, [this] { move_active_rank(+1); }},
      {"Fold all ranks", {K("Ctrl+[")}, [this] { fold_all(true); }},
      {"Unfold all ranks", {K("Ctrl+]")}, [this] { fold_all(false); }},
      {"Show ranks that do the same as another",
       {key(Qt::Key_I)},
       [this] {
         LayoutChoice choice = session_.layout();
         choice.identical_ranks = !choice.identical_ranks;
         session_.set_layout(std::move(choice));
       }},
      {"Clear the selection",
       {key(Qt::Key_Escape)},
       [this] {
         overlay_.found.clear();
         session_.select({});
         update();
       }},
  };
}

std::vector<std::pair<QString, QString>> TimelineView::gestures() const {
  return {{"Ctrl + wheel", "zoom about the mouse"},
          {"wheel", "scroll the rows"},
          {"Shift + wheel", "pan"},
          {"drag", "select an area; edges snap to spans, with Alt they do not"},
          {"Shift + drag, middle drag", "pan"},
          {"click", "select a span, set the cursor; on a label: fold"},
          {"drag a label", "move the rank, or the pinned row, to another place"},
          {"double click", "zoom to a span"},
          {"drag in the ruler", "move the cursor"}};
}

void TimelineView::keyPressEvent(QKeyEvent* event) {
  if (!run_command(commands_, *event)) Canvas::keyPressEvent(event);
}

void TimelineView::zoom(double factor) {
  const double middle = frame_.gutter + frame_.axis.width / 2;
  zoom(factor, hover_ && hover_->x() >= frame_.gutter ? hover_->x() : middle);
}

void TimelineView::focus_selection() {
  if (!run_) return;
  std::optional<TimeRange> time = session_.selection().range;
  if (const auto span = session_.selection().span) {
    time = TimeRange{run_->trace.spans[*span].begin, run_->trace.spans[*span].end};
  }
  if (!time) return fit();
  const TimeAxis focused = TimeAxis::fitting(time->begin, time->end, frame_.axis.width);
  if (focused == frame_.axis) {
    fit();
  } else {
    set_axis(focused);
  }
}

void TimelineView::step_along_lane(int by) {
  const auto span = session_.selection().span;
  if (!run_ || !span) return;
  if (const auto next = neighbour(*run_, *span, by)) {
    session_.point_at({next, std::nullopt, {}});
  }
}

void TimelineView::follow_link(bool forward) {
  const auto span = session_.selection().span;
  if (!run_ || !span) return;
  // The nearest neighbour in time: the last span for which this one waited, or the first that waits
  // for it.
  std::optional<SpanId> best;
  for (const Link& link : overlay_.links) {
    if ((forward ? link.from : link.to) != *span) continue;
    const SpanId other = forward ? link.to : link.from;
    const auto& spans = run_->trace.spans;
    const bool closer = !best || (forward ? spans[other].begin < spans[*best].begin
                                          : spans[other].end > spans[*best].end);
    if (closer) best = other;
  }
  if (best) session_.point_at({best, std::nullopt, {}});
}

void TimelineView::range_of_selection() {
  const auto span = session_.selection().span;
  if (!run_ || !span) return;
  const Span& s = run_->trace.spans[*span];
  session_.select({std::nullopt, TimeRange{s.begin, s.end}, {}});
}

const Row* TimelineView::active_row() const {
  if (hover_) {
    if (const auto place = row_at(layout_, frame_, *hover_)) return place->row;
  }
  const auto span = session_.selection().span;
  if (!run_ || !span) return nullptr;
  const Span& s = run_->trace.spans[*span];
  const Row* found = nullptr;
  for (const Row& row : layout_.rows) {
    if (!row.lane || row.lane->rank != s.rank || row.kind == Row::Kind::Group) continue;
    if (!found || row.stream == run_->lanes.op(s).stream) found = &row;
  }
  return found;
}

void TimelineView::pin_active_row() {
  const Row* row = active_row();
  if (row && row->kind != Row::Kind::Group) {
    session_.set_layout(toggled_pin(session_.layout(), row->key));
  }
}

void TimelineView::move_active_rank(int by) {
  const Row* row = active_row();
  if (row && row->rank >= 0) session_.set_layout(moved(*run_, session_.layout(), row->rank, by));
}

void TimelineView::fold_all(bool fold) {
  if (run_) session_.set_layout(folded_ranks(*run_, session_.layout(), fold));
}

bool TimelineView::find(const std::string& words, bool forward) {
  if (!run_) return false;
  const SpanQuery query(*run_, words);
  auto found = query.next(session_.selection().span, forward);
  if (!found) found = query.next(std::nullopt, forward);  // goes round at the end
  if (found) session_.point_at({found, std::nullopt, {}});
  return found.has_value();
}

}  // namespace lockstep::gui
