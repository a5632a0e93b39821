// The documents of a session: what is edited, when it is simulated, and what becomes of that.
#include <algorithm>
#include <filesystem>
#include <optional>
#include <utility>

#include "core/format/format.hpp"
#include "core/plan/found_layout.hpp"
#include "core/scenario/edit_text.hpp"
#include "core/scenario/scenario_file.hpp"
#include "core/session/simulation.hpp"
#include "gui/model/session.hpp"

namespace lockstep::gui {
namespace {

/// A simulation that has run for so long is given up when the document changes again. A shorter one
/// is shown when it ends, so that a picture follows a slider while it moves.
constexpr qint64 kPatienceMs = 2000;

/// Where simulations take longer than that, an estimate is told before.
constexpr qint64 kSoonMs = 300;

/// The estimate of a scenario, if it has no faults and is of a kind that can be estimated.
std::optional<LayoutEstimate> coarse_answer(const Document& document, const std::string& file,
                                            Estimator& estimator) {
  LoadedScenario loaded = parse_scenario(document.text, file, document.overrides);
  if (!loaded.ok()) return std::nullopt;
  const Scenario& scenario = loaded.points.front().scenario;
  const bool given_times = scenario.model.architecture == Architecture::Synthetic;
  if (given_times || scenario.model.has_batch_norm()) return std::nullopt;
  const Result<LayoutEstimate> estimate = estimator.estimate(scenario);
  return estimate ? std::optional(*estimate) : std::nullopt;
}

}  // namespace

// ---------------------------------------------------------------- what is open

std::vector<OpenItem> Session::items() const {
  std::vector<OpenItem> items;
  for (const RunPtr& run : runs_.all()) {
    const OpenDocument* document = document_of(run);
    items.push_back({run->title, run, document ? document->id : -1,
                     document && document->edited.is_modified()});
  }
  for (const auto& document : documents_) {
    if (document->simulation) continue;
    const std::string name = std::filesystem::path(document->edited.file_name()).stem().string();
    items.push_back({name + (document->errors.empty() ? ", not simulated yet" : ", has faults"),
                     nullptr, document->id, document->edited.is_modified()});
  }
  return items;
}

bool Session::is_shown(const OpenItem& item) const {
  if (item.run) return item.run == run_;
  return document_ && document_->id == item.document;
}

void Session::show(const OpenItem& item) {
  if (item.run) return show(item.run);
  OpenDocument* document = find_document(item.document);
  if (!document) return;
  document->show_when_ready = true;
  set_document(document);
  simulate_next();
}

void Session::close(const OpenItem& item) {
  if (item.run) return close(item.run);
  if (OpenDocument* document = find_document(item.document)) close_document(*document);
  emit runsChanged();
}

OpenDocument* Session::find_document(int id) const {
  for (const auto& document : documents_) {
    if (document->id == id) return document.get();
  }
  return nullptr;
}

OpenDocument* Session::document_of(const RunPtr& run) const {
  for (const auto& document : documents_) {
    if (run && document->simulation == run) return document.get();
  }
  return nullptr;
}

OpenDocument& Session::add_document() {
  documents_.push_back(std::make_unique<OpenDocument>());
  documents_.back()->id = documents_opened_++;
  return *documents_.back();
}

void Session::set_document(OpenDocument* document) {
  if (document == document_) return;
  document_ = document;
  emit documentChanged();
  emit errorsChanged();
  emit remediesChanged();
}

void Session::close_document(OpenDocument& document) {
  if (document.id == simulating_id_) {
    simulating_.cancel();
    simulating_id_ = -1;
  }
  const auto own = std::find_if(documents_.begin(), documents_.end(),
                                [&](const auto& open) { return open.get() == &document; });
  const std::unique_ptr<OpenDocument> closed = std::move(*own);  // until nobody points at it
  documents_.erase(own);
  if (kept_) kept_->keep(closed->id, std::nullopt);
  if (document_ == closed.get())
    set_document(documents_.empty() ? nullptr : documents_.back().get());
  simulate_next();
  emit busyChanged();
}

std::string Session::outdated() const {
  if (!document_ || !run_ || run_ != document_->simulation) return {};
  if (!document_->errors.empty()) {
    return "The scenario has a fault; shown is the last one without: " +
           to_string(document_->errors.front());
  }
  if (document_->id == simulating_id_) {
    std::string text = "Being simulated; shown is what was before.";
    if (!estimate_) return text;
    return text + " Estimated: a step of " + time_text(estimate_->step_time) + ", " +
           bytes_text(estimate_->needed) + " on the fullest rank.";
  }
  return document_->pending ? "Not simulated; shown is what was before the last change." : "";
}

// ---------------------------------------------------------------- editing

const std::vector<Error>& Session::errors() const {
  static const std::vector<Error> none;
  return document_ ? document_->errors : none;
}

void Session::edit(Document document, const std::string& merge) {
  if (!document_) document_ = &add_document();
  if (!document_->edited.edit(std::move(document), merge)) return;
  document_->show_when_ready = true;
  document_changed();
}

void Session::open_layout(const Scenario& layout) {
  if (!document_) return;
  const Document& base = document_->edited.now();
  const std::filesystem::path file = document_->edited.file_name();
  const auto changes = overrides_for(base.text, file.string(), layout);
  Result<std::string> text = layout_file(layout);
  if (changes) text = with_overrides(base.text, file.string(), *changes);
  if (!text) return tell_failure(text.error());
  const std::string stem = file.stem().string();  // of a layout, it has that layout's name, too
  const std::string name = stem.substr(0, stem.find(", ")) + ", " + layout_name(layout) + ".toml";
  const std::string path = (file.parent_path() / name).string();
  const auto open = std::find_if(documents_.begin(), documents_.end(),
                                 [&](const auto& d) { return d->edited.path() == path; });
  const bool fresh = open == documents_.end();
  OpenDocument& shown = fresh ? add_document() : **open;
  if (fresh) shown.edited.begin(path, {*text, {}});
  shown.show_when_ready = true;
  set_document(&shown);
  document_changed();
}

void Session::set_override(const std::string& key, const std::optional<std::string>& value) {
  if (!document_ || !document_->edited.set_override(key, value)) return;
  document_->show_when_ready = true;
  document_changed();
}

void Session::undo() {
  if (!can_undo()) return;
  document_->edited.undo();
  document_changed();
}

void Session::redo() {
  if (!can_redo()) return;
  document_->edited.redo();
  document_changed();
}

Result<void> Session::save(const std::string& path) {
  if (!document_) return {};
  if (auto written = document_->edited.save(path); !written) return written;
  document_changed();
  return {};
}

// ---------------------------------------------------------------- others, and the session before

std::vector<std::string> Session::reread() {
  std::vector<std::string> files;
  for (const auto& document : documents_) {
    if (!document->edited.reread()) continue;
    document->pending = true;
    files.push_back(document->edited.path());
  }
  if (files.empty()) return files;
  simulate_next();
  emit documentChanged();
  emit busyChanged();
  return files;
}

std::vector<Session::Reopened> Session::keep_changes_in(const QString& folder) {
  std::vector<Reopened> reopened;
  kept_ = std::make_unique<KeptChanges>(folder);
  for (const LeftBehind& left : kept_->take_over(documents_opened_)) {
    OpenDocument& document = add_document();
    document.edited.restore(left.unsaved);
    document.show_when_ready = true;
    reopened.push_back({left.unsaved.path, left.sessions == 1});
    set_document(&document);
    if (reopened.back().simulated) document_changed();
  }
  emit runsChanged();
  keep_changes();
  return reopened;
}

void Session::keep_changes() {
  for (const auto& document : documents_) kept_->keep(document->id, document->edited.unsaved());
}

// ---------------------------------------------------------------- simulating

void Session::document_changed() {
  document_->pending = true;
  if (kept_ && !keep_soon_.isActive()) keep_soon_.start();
  // Of a document without a picture, what has just begun is not worth one: --set comes after
  // open().
  const bool begun = simulating_since_.elapsed() < kSoonMs;
  const bool too_long = simulating_since_.elapsed() > kPatienceMs;
  if (document_->id == simulating_id_ && (too_long || (begun && !document_->simulation))) {
    simulating_.cancel();
    simulating_id_ = -1;
  }
  simulate_next();
  emit documentChanged();
  emit busyChanged();
}

void Session::simulate_next() {
  if (simulating_.busy()) {  // take_simulation() comes here again
    OpenDocument* behind = find_document(simulating_id_);
    if (!behind || behind == document_ || !document_ || !document_->pending) return;
    // What is in front does not wait for what is not, which is simulated again later.
    behind->pending = true;
    behind->show_when_ready = false;
    simulating_.cancel();
    simulating_id_ = -1;
  }
  OpenDocument* next = document_ && document_->pending ? document_ : nullptr;
  for (const auto& document : documents_) {
    if (!next && document->pending) next = document.get();
  }
  if (!next) return;
  next->pending = false;
  simulating_id_ = next->id;
  simulating_since_.start();
  remedying_.cancel();
  estimate_.reset();
  estimating_.cancel();
  if (next->took_ms > kSoonMs) estimate(*next);
  simulating_.submit([this, id = next->id, document = next->edited.now(),
                      file = next->edited.file_name(),
                      before = next->simulation](const Cancelled& cancelled) -> Latest::Apply {
    return [this, id,
            outcome = simulate(document.text, file, document.overrides, cancelled, before.get())] {
      take_simulation(id, outcome);
    };
  });
}

void Session::take_simulation(int id, Outcome outcome) {
  simulating_id_ = -1;
  OpenDocument* document = find_document(id);
  if (document) {
    document->took_ms = simulating_since_.elapsed();
    document->errors = std::move(outcome.errors);
    document->remedies.clear();
    document->remedies_known = false;
    if (outcome.run) {
      const RunPtr before = std::exchange(document->simulation, outcome.run);
      const bool shown = !run_ || run_ == before || document->show_when_ready;
      if (!document->pending) document->show_when_ready = false;
      runs_.replace(before, outcome.run);
      if (shown) set_run(outcome.run);  // before views see a list that lacks the run they show
      emit runsChanged();
      if (outcome.run->too_large && !document->pending) look_for_remedies(*document);
    }
  }
  simulate_next();
  emit errorsChanged();
  emit remediesChanged();
  emit busyChanged();
}

void Session::estimate(const OpenDocument& document) {
  estimating_.submit([this, id = document.id, now = document.edited.now(),
                      file = document.edited.file_name(),
                      estimator = estimator_](const Cancelled&) -> Latest::Apply {
    return [this, id, found = coarse_answer(now, file, *estimator)] {
      if (id != simulating_id_ || !found) return;
      estimate_ = found;
      emit busyChanged();  // what outdated() says has changed
    };
  });
}

void Session::look_for_remedies(const OpenDocument& document) {
  remedying_.submit([this, id = document.id,
                     run = document.simulation](const Cancelled& cancelled) -> Latest::Apply {
    const auto oracle = [&](const Scenario& scenario) -> Result<LayoutFigures> {
      if (cancelled) return Error{ErrorKind::OutOfMemory, "cancelled", {}};
      return simulated_layout(scenario);
    };
    const auto prober = [&](const Scenario& scenario) -> Result<Probe> {
      if (cancelled) return Error{ErrorKind::OutOfMemory, "cancelled", {}};
      return simulated_probe(scenario);
    };
    return [this, id, run, found = lockstep::remedies(*run->scenario, oracle, prober)] {
      OpenDocument* open = find_document(id);
      if (!open || open->simulation != run) return;
      open->remedies = found;
      open->remedies_known = true;
      emit remediesChanged();
    };
  });
}

const std::vector<Remedy>* Session::remedies() const {
  return document_ && document_->remedies_known ? &document_->remedies : nullptr;
}

}  // namespace lockstep::gui
