// Session: the state of the application. Views show it and change it by calls of it; they do not
// know each other. It lives on the GUI thread; other threads simulate and load.
#pragma once

#include <QObject>
#include <atomic>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/model/form/document.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/run/open_runs.hpp"
#include "gui/model/run/run_view.hpp"
#include "gui/model/run/selection.hpp"
#include "gui/model/timeline/arrangement.hpp"
#include "gui/model/timeline/playback.hpp"

namespace lockstep::gui {

/// The session consists of parts that change together: the document, the open runs, the cursor, and
/// what the user arranged. The parts contain the rules; the session emits signals of what changed,
/// and starts work that a change asks for.
class Session : public QObject {
  Q_OBJECT

 public:
  explicit Session(QObject* parent = nullptr);
  ~Session() override;

  // ---- what is open
  /// Opens a scenario, a run folder, a trace or a schedule (.csv, which becomes a scenario that is
  /// not saved yet). The result comes with a signal. If the file cannot be read, `failed` is
  /// emitted and what was open stays.
  void open(const std::string& path);
  const std::string& path() const { return document_.path(); }  // of the scenario; may be empty
  RunPtr run() const { return run_; }                           // the run shown now; null if none
  /// All open runs, beginning with the simulation of the document if there is one.
  const std::vector<RunPtr>& runs() const { return runs_.all(); }
  /// The last simulation of the document; null if the document has faults, or none has ended yet.
  RunPtr simulation() const { return errors_.empty() ? runs_.simulation() : nullptr; }
  void add(RunPtr run);   // adds a run, and shows it
  void show(RunPtr run);  // shows one of runs()
  void close(const RunPtr& run);
  bool busy() const { return loading_.busy() || simulating_.busy(); }
  /// How far loading has come, in percent; -1 if that is not known.
  int progress() const { return loading_.busy() ? progress_->load() : -1; }
  void cancel();  // cancels whatever runs in the background

  // ---- the document: scenario text, edited and simulated as it changes
  bool has_document() const { return document_.is_open(); }
  const Document& document() const { return document_.now(); }
  /// Changes the document. Successive changes with the same non-empty `merge` are one step of undo.
  void edit(Document document, const std::string& merge = {});
  /// Sets one override ("parallelism.pipeline_parallel_degree", "8"), or removes it if there is no
  /// value.
  void set_override(const std::string& key, const std::optional<std::string>& value);
  void undo();
  void redo();
  bool can_undo() const { return document_.can_undo(); }
  bool can_redo() const { return document_.can_redo(); }
  /// Faults of the document. If there are any, the run shown is that of the last text without
  /// faults.
  const std::vector<Error>& errors() const { return errors_; }
  bool is_modified() const { return document_.is_modified(); }
  /// Writes the document's text to a file. Error Device.
  Result<void> save(const std::string& path);
  // ---- A and B
  RunPtr slot(Slot slot) const { return runs_.slot(slot); }
  void store(Slot slot, RunPtr run);

  // ---- time, selection, play
  SimTime cursor() const { return playback_.cursor(); }
  void set_cursor(SimTime time);  // stays inside the run
  const Selection& selection() const { return selection_; }
  void select(Selection selection);
  /// Selects what a row of a table or a caption points at, sets the cursor there, and asks the
  /// timeline to bring it into view.
  void point_at(Selection selection);
  bool playing() const { return playback_.playing(); }
  void set_playing(bool playing);  // starts at the begin of the run if the cursor is at its end
  /// Seconds that playing the whole run takes.
  double play_seconds() const { return playback_.seconds(); }
  void set_play_seconds(double seconds);
  /// Moves the cursor by `seconds` of the user's time; stops at the end of the run.
  void advance(double seconds);

  // ---- the timeline's rows and marks, kept per file
  const LayoutChoice& layout() const { return arrangement_.layout(); }
  void set_layout(LayoutChoice layout);
  const std::vector<Mark>& marks() const { return arrangement_.marks(); }  // of the run shown
  /// Marks the selected span or area, or else the cursor; removes the mark if there is one already.
  void toggle_mark();
  void go_to_mark(bool forward);  // to the next mark or the one before; goes round at the ends
  /// What was arranged and marked in each file, by its path.
  ViewsByPath views() const { return arrangement_.views(run_); }
  void set_views(ViewsByPath views) { arrangement_.set_views(std::move(views)); }

 signals:
  void runChanged();       // another run is shown, or none
  void runsChanged();      // the list of runs has changed
  void documentChanged();  // the text or the overrides have changed
  void errorsChanged();
  void busyChanged();
  void slotsChanged();
  void cursorChanged();
  void selectionChanged();
  void pointedAt();  // emitted after selectionChanged by point_at()
  void playChanged();
  void layoutChanged();
  void marksChanged();
  void failed(const QString& message);

 private:
  void load_in_background(const std::string& path);
  void document_changed();  // emits the signal, and simulates the document
  void simulate_document();
  void show_simulation(Outcome outcome);
  void set_run(RunPtr run);
  void tell_failure(const Error& error);
  Mark here() const;  // what toggle_mark() would mark

  EditedDocument document_;
  std::vector<Error> errors_;
  OpenRuns runs_;
  RunPtr run_;
  bool show_next_simulation_ = false;
  Playback playback_;
  Arrangement arrangement_;
  Selection selection_;
  std::shared_ptr<std::atomic<int>> progress_;  // of the newest loading
  Latest loading_, simulating_;  // the last members, so that they stop before the others go
};

}  // namespace lockstep::gui
