#include "gui/model/session.hpp"

#include <algorithm>
#include <utility>

#include "core/format/format.hpp"
#include "core/run_folder/run_folder.hpp"
#include "gui/model/describe.hpp"
#include "gui/model/schedule_file.hpp"

namespace lockstep::gui {
namespace {

void take_override(std::vector<std::string>& overrides, const std::string& key) {
  std::erase_if(overrides, [&](const std::string& entry) { return entry.starts_with(key + "="); });
}

}  // namespace

void put_override(std::vector<std::string>& overrides, const std::string& entry) {
  take_override(overrides, entry.substr(0, entry.find('=')));
  overrides.push_back(entry);
}

Session::Session(QObject* parent) : QObject(parent), loading_(*this), simulating_(*this) {}
Session::~Session() = default;

// ---------------------------------------------------------------- open and close

void Session::open(const std::string& path) {
  if (kind_of_path(path) != FileKind::Scenario) {
    progress_ = std::make_shared<std::atomic<int>>(-1);
    loading_.submit([this, path, percent = progress_](const Cancelled& cancelled) -> Latest::Apply {
      const auto progress = [&](double fraction) { *percent = static_cast<int>(100 * fraction); };
      return [this, outcome = load(path, cancelled, progress)] {
        if (outcome.run) add(outcome.run);
        for (const Error& error : outcome.errors) {
          emit failed(QString::fromStdString(to_string(error)));
        }
        emit busyChanged();
      };
    });
    emit busyChanged();
    return;
  }
  Result<std::string> text = read_file(path);
  if (!text) {
    emit failed(QString::fromStdString(to_string(text.error())));
    return;
  }
  const bool schedule = path.ends_with(".csv");
  saved_text_ = schedule ? "" : *text;
  if (schedule) text = scenario_of_schedule(*text, path);
  if (!text) {
    emit failed(QString::fromStdString(to_string(text.error())));
    return;
  }
  path_ = schedule ? "" : path;
  has_document_ = true;
  history_ = History<Document>({std::move(*text), {}});
  show_next_simulation_ = true;
  emit documentChanged();
  simulate_document();
}

void Session::add(RunPtr run) {
  runs_.push_back(run);
  emit runsChanged();
  set_run(std::move(run));
}

void Session::show(RunPtr run) { set_run(std::move(run)); }

void Session::close(const RunPtr& run) {
  std::erase(runs_, run);
  if (simulation_ == run) simulation_.reset();
  emit runsChanged();
  if (run_ == run) set_run(runs_.empty() ? nullptr : runs_.front());
}

void Session::cancel() {
  loading_.cancel();
  simulating_.cancel();
  emit busyChanged();
}

void Session::set_run(RunPtr run) {
  if (run_ == run) return;
  views_ = views();
  const RunPtr before = std::exchange(run_, std::move(run));
  const auto kept = run_ ? views_.find(run_->path) : views_.end();
  const bool same_file = before && run_ && before->path == run_->path;
  // A new simulation of the same world keeps what the user arranged.
  if (run_ && (!before || before->trace.rank_labels != run_->trace.rank_labels)) {
    layout_ = kept != views_.end() && !same_file ? kept->second.layout : initial_choice(*run_);
    cursor_ = run_->lanes.begin();
  }
  const std::vector<Mark> marks_before = marks_;
  if (!same_file) marks_ = kept != views_.end() ? kept->second.marks : std::vector<Mark>();
  const bool selected = selection_ != Selection{};
  selection_ = {};
  if (run_) cursor_ = std::clamp(cursor_, run_->lanes.begin(), run_->lanes.end());
  emit runChanged();
  emit layoutChanged();
  if (marks_ != marks_before) emit marksChanged();
  if (selected) emit selectionChanged();
  emit cursorChanged();
}

// ---------------------------------------------------------------- the document

void Session::edit(Document document, const std::string& merge) {
  has_document_ = true;
  if (!history_.change(std::move(document), merge)) return;
  emit documentChanged();
  simulate_document();
}

void Session::set_override(const std::string& key, const std::optional<std::string>& value) {
  Document next = document();
  take_override(next.overrides, key);
  if (value) next.overrides.push_back(key + "=" + *value);
  edit(std::move(next), key);
}

void Session::undo() {
  if (!can_undo()) return;
  history_.undo();
  emit documentChanged();
  simulate_document();
}

void Session::redo() {
  if (!can_redo()) return;
  history_.redo();
  emit documentChanged();
  simulate_document();
}

Result<void> Session::save(const std::string& path) {
  if (auto written = write_file(path, document().text); !written) return written;
  path_ = path;
  saved_text_ = document().text;
  emit documentChanged();
  return {};
}

void Session::simulate_document() {
  const std::string file = path_.empty() ? "scenario.toml" : path_;
  simulating_.submit([this, document = document(), file,
                      before = simulation_](const Cancelled& cancelled) -> Latest::Apply {
    return [this, outcome = simulate(document.text, file, document.overrides, cancelled,
                                     before.get())] { show_simulation(outcome); };
  });
  emit busyChanged();
}

void Session::show_simulation(Outcome outcome) {
  errors_ = std::move(outcome.errors);
  if (outcome.run) {
    const bool shown = !run_ || run_ == simulation_ || show_next_simulation_;
    show_next_simulation_ = false;
    const auto old = std::find(runs_.begin(), runs_.end(), simulation_);
    if (simulation_ && old != runs_.end()) {
      *old = outcome.run;
    } else {
      runs_.insert(runs_.begin(), outcome.run);
    }
    simulation_ = outcome.run;
    emit runsChanged();
    if (shown) set_run(outcome.run);
  }
  emit errorsChanged();
  emit busyChanged();
}

// ---------------------------------------------------------------- A and B, time, selection, play

void Session::store(Slot slot, RunPtr run) {
  slots_[static_cast<int>(slot)] = std::move(run);
  emit slotsChanged();
}

void Session::set_cursor(SimTime time) {
  if (!run_) return;
  time = std::clamp(time, run_->lanes.begin(), run_->lanes.end());
  if (time == cursor_) return;
  cursor_ = time;
  emit cursorChanged();
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
  if (playing == playing_ || (playing && !run_)) return;
  if (playing && cursor_ >= run_->lanes.end()) set_cursor(run_->lanes.begin());
  playing_ = playing;
  emit playChanged();
}

void Session::set_play_seconds(double seconds) {
  play_seconds_ = std::max(seconds, 0.1);
  emit playChanged();
}

void Session::advance(double seconds) {
  if (!playing_ || !run_) return;
  const SimTime whole = run_->lanes.end() - run_->lanes.begin();
  const double ticks = static_cast<double>(whole.count()) * seconds / play_seconds_;
  set_cursor(cursor_ + SimTime{static_cast<std::int64_t>(ticks)});
  if (cursor_ >= run_->lanes.end()) set_playing(false);
}

void Session::set_layout(LayoutChoice layout) {
  if (layout == layout_) return;
  layout_ = std::move(layout);
  emit layoutChanged();
}

// ---------------------------------------------------------------- marks

Mark Session::here() const {
  if (selection_.span) {
    const Span& span = run_->trace.spans[*selection_.span];
    return {{span.begin, span.end}, {span.rank}, summary(*run_, *selection_.span)};
  }
  if (!selection_.range) {
    return {{cursor_, cursor_}, {}, time_text(to_seconds(cursor_ - run_->lanes.begin()))};
  }
  const std::string words = time_text(to_seconds(selection_.range->end - selection_.range->begin));
  return {*selection_.range, selection_.ranks, words};
}

void Session::toggle_mark() {
  if (!run_) return;
  toggle(marks_, here());
  emit marksChanged();
}

void Session::go_to_mark(bool forward) {
  const Mark* mark = run_ ? next_mark(marks_, here(), forward) : nullptr;
  if (mark) point_at({std::nullopt, mark->range, mark->ranks});
}

std::map<std::string, ViewState> Session::views() const {
  std::map<std::string, ViewState> views = views_;
  if (!run_ || run_->path.empty()) return views;
  if (marks_.empty() && layout_ == initial_choice(*run_)) {
    views.erase(run_->path);
  } else {
    views[run_->path] = {layout_, marks_};
  }
  return views;
}

}  // namespace lockstep::gui
