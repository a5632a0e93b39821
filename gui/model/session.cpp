#include "gui/model/session.hpp"

#include <utility>

#include "core/format/format.hpp"
#include "gui/model/run/describe.hpp"

namespace lockstep::gui {

Session::Session(QObject* parent) : QObject(parent), loading_(*this), simulating_(*this) {}
Session::~Session() = default;

void Session::tell_failure(const Error& error) {
  emit failed(QString::fromStdString(to_string(error)));
}

// ---------------------------------------------------------------- open and close

void Session::open(const std::string& path) {
  if (kind_of_path(path) != FileKind::Scenario) return load_in_background(path);
  if (const Result<void> opened = document_.open(path); !opened) {
    return tell_failure(opened.error());
  }
  show_next_simulation_ = true;
  document_changed();
}

void Session::load_in_background(const std::string& path) {
  progress_ = std::make_shared<std::atomic<int>>(-1);
  loading_.submit([this, path, percent = progress_](const Cancelled& cancelled) -> Latest::Apply {
    const auto progress = [&](double fraction) { *percent = static_cast<int>(100 * fraction); };
    return [this, outcome = load(path, cancelled, progress)] {
      if (outcome.run) add(outcome.run);
      for (const Error& error : outcome.errors) tell_failure(error);
      emit busyChanged();
    };
  });
  emit busyChanged();
}

void Session::add(RunPtr run) {
  runs_.add(run);
  emit runsChanged();
  set_run(std::move(run));
}

void Session::show(RunPtr run) { set_run(std::move(run)); }

void Session::close(const RunPtr& run) {
  const RunPtr closed = run;  // a copy, because `run` may refer to an element of the list
  RunPtr next = runs_.close(closed);
  emit runsChanged();
  if (run_ == closed) set_run(std::move(next));
}

void Session::cancel() {
  loading_.cancel();
  simulating_.cancel();
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

// ---------------------------------------------------------------- the document

void Session::edit(Document document, const std::string& merge) {
  if (document_.edit(std::move(document), merge)) document_changed();
}

void Session::set_override(const std::string& key, const std::optional<std::string>& value) {
  if (document_.set_override(key, value)) document_changed();
}

void Session::undo() {
  if (!can_undo()) return;
  document_.undo();
  document_changed();
}

void Session::redo() {
  if (!can_redo()) return;
  document_.redo();
  document_changed();
}

Result<void> Session::save(const std::string& path) {
  if (auto written = document_.save(path); !written) return written;
  emit documentChanged();
  return {};
}

void Session::document_changed() {
  emit documentChanged();
  simulate_document();
}

void Session::simulate_document() {
  simulating_.submit([this, document = document(), file = document_.file_name(),
                      before = runs_.simulation()](const Cancelled& cancelled) -> Latest::Apply {
    return [this, outcome = simulate(document.text, file, document.overrides, cancelled,
                                     before.get())] { show_simulation(outcome); };
  });
  emit busyChanged();
}

void Session::show_simulation(Outcome outcome) {
  errors_ = std::move(outcome.errors);
  if (outcome.run) {
    const bool shown = !run_ || run_ == runs_.simulation() || show_next_simulation_;
    show_next_simulation_ = false;
    runs_.set_simulation(outcome.run);
    emit runsChanged();
    if (shown) set_run(outcome.run);
  }
  emit errorsChanged();
  emit busyChanged();
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
