#include "gui/model/session.hpp"

#include <utility>

#include "core/format/format.hpp"
#include "core/session/simulation.hpp"
#include "gui/model/run/describe.hpp"

namespace lockstep::gui {
namespace {

constexpr int kKeepAfterMs = 500;  // what a kill may take of what was typed

}  // namespace

Session::Session(QObject* parent)
    : QObject(parent),
      estimator_(std::make_shared<Estimator>(simulated_probe)),
      loading_(*this),
      simulating_(*this),
      estimating_(*this),
      remedying_(*this) {
  keep_soon_.setSingleShot(true);
  keep_soon_.setInterval(kKeepAfterMs);
  connect(&keep_soon_, &QTimer::timeout, this, [this] { keep_changes(); });
}
Session::~Session() = default;

void Session::tell_failure(const Error& error) {
  emit failed(QString::fromStdString(to_string(error)));
}

// ---------------------------------------------------------------- open and close

void Session::open(const std::string& path) {
  if (kind_of_path(path) != FileKind::Scenario) {
    to_load_.push_back(path);
    if (!loading_.busy()) load_next();
    return;
  }
  for (const auto& open : documents_) {
    if (open->edited.path() != path) continue;
    if (!open->edited.is_modified()) {  // the file may have changed; what is not saved stays
      const Result<void> read = open->edited.open(path);
      if (!read) return tell_failure(read.error());
    }
    open->show_when_ready = true;
    set_document(open.get());
    return document_changed();
  }
  EditedDocument read;
  if (const Result<void> done = read.open(path); !done) return tell_failure(done.error());
  OpenDocument& fresh = add_document();
  fresh.edited = std::move(read);
  fresh.show_when_ready = true;
  set_document(&fresh);
  document_changed();
}

/// Loads one file after the other, so that none is lost that was opened together with others.
void Session::load_next() {
  if (to_load_.empty()) return;
  const std::string path = std::move(to_load_.front());
  to_load_.pop_front();
  progress_ = std::make_shared<std::atomic<int>>(-1);
  loading_.submit([this, path, percent = progress_](const Cancelled& cancelled) -> Latest::Apply {
    const auto progress = [&](double fraction) { *percent = static_cast<int>(100 * fraction); };
    return [this, outcome = load(path, cancelled, progress)] {
      if (outcome.run) add(outcome.run);
      for (const Error& error : outcome.errors) tell_failure(error);
      load_next();
      emit busyChanged();
    };
  });
  emit busyChanged();
}

void Session::add(RunPtr run) {
  runs_.add(run);
  emit runsChanged();
  const bool profile = run->from_elsewhere();
  set_run(std::move(run));
  if (profile) emit profileChanged();
}

void Session::show(RunPtr run) {
  if (OpenDocument* document = document_of(run)) set_document(document);
  set_run(std::move(run));
}

void Session::close(const RunPtr& run) {
  // NOLINTNEXTLINE(performance-unnecessary-copy-initialization)
  const RunPtr closed = run;  // a copy, because `run` may refer to an element of the list
  if (OpenDocument* document = document_of(closed)) close_document(*document);
  RunPtr next = runs_.close(closed);
  if (run_ == closed)
    show(std::move(next));  // before views see a list that lacks the run they show
  emit runsChanged();
}

void Session::cancel() {
  to_load_.clear();
  loading_.cancel();
  simulating_.cancel();
  if (OpenDocument* document = find_document(simulating_id_)) document->pending = true;
  simulating_id_ = -1;
  emit busyChanged();
}

void Session::set_run(RunPtr run) {
  if (run_ == run) return;
  const RunPtr before = std::exchange(run_, std::move(run));
  const Arrangement::Changed changed = arrangement_.show(before, run_);
  if (run_) playback_.set_run(run_->lanes.begin(), run_->lanes.end(), changed.world);
  const bool selected = selection_ != Selection{};
  selection_ = {};
  emit runChanged();
  emit layoutChanged();
  if (changed.marks) emit marksChanged();
  if (selected) emit selectionChanged();
  emit cursorChanged();
}

// ---------------------------------------------------------------- A and B, time, selection, play

void Session::store(Slot slot, RunPtr run) {
  runs_.store(slot, std::move(run));
  emit slotsChanged();
}

void Session::set_cursor(SimTime time) {
  if (run_ && playback_.set_cursor(time)) emit cursorChanged();
}

void Session::select(Selection selection) {
  if (selection == selection_) return;
  selection_ = std::move(selection);
  emit selectionChanged();
}

void Session::point_at(Selection selection) {
  if (selection.span) set_cursor(run_->trace.spans[*selection.span].active);
  if (selection.range) set_cursor(selection.range->begin);
  select(std::move(selection));
  emit pointedAt();
}

void Session::set_axis(const TimeAxis& axis, double left) {
  if (axis == axis_ && left == axis_left_) return;
  axis_ = axis;
  axis_left_ = left;
  emit axisChanged();
}

void Session::set_playing(bool playing) {
  if (playing == this->playing() || (playing && !run_)) return;
  if (playing && playback_.at_end()) set_cursor(run_->lanes.begin());
  playback_.set_playing(playing);
  emit playChanged();
}

void Session::set_play_seconds(double seconds) {
  playback_.set_seconds(seconds);
  emit playChanged();
}

void Session::advance(double seconds) {
  if (!playing() || !run_) return;
  if (playback_.advance(seconds)) emit cursorChanged();
  if (playback_.at_end()) set_playing(false);
}

void Session::set_layout(LayoutChoice layout) {
  if (arrangement_.set_layout(std::move(layout))) emit layoutChanged();
}

// ---------------------------------------------------------------- marks

Mark Session::here() const {
  if (selection_.span) {
    const Span& span = run_->trace.spans[*selection_.span];
    return {{span.begin, span.end}, {span.rank}, summary(*run_, *selection_.span)};
  }
  if (!selection_.range) {
    return {{cursor(), cursor()}, {}, time_text(to_seconds(cursor() - run_->lanes.begin()))};
  }
  const std::string words = time_text(to_seconds(selection_.range->end - selection_.range->begin));
  return {*selection_.range, selection_.ranks, words};
}

void Session::toggle_mark() {
  if (!run_) return;
  arrangement_.toggle_mark(here());
  emit marksChanged();
}

void Session::go_to_mark(bool forward) {
  const Mark* mark = run_ ? next_mark(marks(), here(), forward) : nullptr;
  if (mark) point_at({std::nullopt, mark->range, mark->ranks});
}

}  // namespace lockstep::gui
