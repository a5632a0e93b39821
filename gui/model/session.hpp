// Session: the application's state. Views show it and change it through it; they do not know each
// other. Lives on the GUI thread; simulating and loading happen on others.
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

/// Made of parts that change together: the document, the runs that are open, the cursor and what
/// the user arranged. The parts hold the rules; the session says what changed, and starts what the
/// change asks for.
class Session : public QObject {
  Q_OBJECT

 public:
  explicit Session(QObject* parent = nullptr);
  ~Session() override;

  // ---- what is open
  /// A scenario, a run folder, a trace or a schedule (.csv, which becomes a scenario that is not
  /// saved yet); the result comes with a signal. An unreadable file is
  /// told by `failed`, and what was open stays.
  void open(const std::string& path);
  const std::string& path() const { return document_.path(); }  // of the scenario; may be empty
  RunPtr run() const { return run_; }                           // shown now; null: none
  /// Every run that is open, the simulation of the document first if there is one.
  const std::vector<RunPtr>& runs() const { return runs_.all(); }
  /// Of the document, as it was last simulated; null: it has faults, or there is none yet.
  RunPtr simulation() const { return errors_.empty() ? runs_.simulation() : nullptr; }
  void add(RunPtr run);   // shows it too
  void show(RunPtr run);  // one of runs()
  void close(const RunPtr& run);
  bool busy() const { return loading_.busy() || simulating_.busy(); }
  /// How far loading has come, in percent; -1: nobody knows.
  int progress() const { return loading_.busy() ? progress_->load() : -1; }
  void cancel();  // whatever is in the background

  // ---- the document: scenario text, edited and simulated as it changes
  bool has_document() const { return document_.is_open(); }
  const Document& document() const { return document_.now(); }
  /// Changes of the same non-empty `merge` in a row are one step of undo.
  void edit(Document document, const std::string& merge = {});
  /// Sets one override ("parallelism.pipeline_parallel_degree", "8"); no value: takes it away.
  void set_override(const std::string& key, const std::optional<std::string>& value);
  void undo();
  void redo();
  bool can_undo() const { return document_.can_undo(); }
  bool can_redo() const { return document_.can_redo(); }
  /// Faults of the document; the run shown is then that of the last text without any.
  const std::vector<Error>& errors() const { return errors_; }
  bool is_modified() const { return document_.is_modified(); }
  /// Writes the document's text. Error: Device.
  Result<void> save(const std::string& path);

  // ---- A and B
  RunPtr slot(Slot slot) const { return runs_.slot(slot); }
  void store(Slot slot, RunPtr run);

  // ---- time, selection, play
  SimTime cursor() const { return playback_.cursor(); }
  void set_cursor(SimTime time);  // stays inside the run
  const Selection& selection() const { return selection_; }
  void select(Selection selection);
  /// Selects, sets the cursor there and asks the timeline to bring it into view: what a table's row
  /// or a caption points at.
  void point_at(Selection selection);
  bool playing() const { return playback_.playing(); }
  void set_playing(bool playing);  // from the begin if the cursor is at the end
  /// Seconds that playing the whole run takes.
  double play_seconds() const { return playback_.seconds(); }
  void set_play_seconds(double seconds);
  /// Moves the cursor by `seconds` of the user's time; stops at the end of the run.
  void advance(double seconds);

  // ---- the timeline's rows and marks, kept per file
  const LayoutChoice& layout() const { return arrangement_.layout(); }
  void set_layout(LayoutChoice layout);
  const std::vector<Mark>& marks() const { return arrangement_.marks(); }  // of the run shown
  /// Marks the selected span or area, else the cursor; what is marked already is unmarked.
  void toggle_mark();
  void go_to_mark(bool forward);  // the next one, or the one before; once around
  /// By path of a file: what was arranged and marked in it, if anything.
  ViewsByPath views() const { return arrangement_.views(run_); }
  void set_views(ViewsByPath views) { arrangement_.set_views(std::move(views)); }

 signals:
  void runChanged();       // another run is shown, or none
  void runsChanged();      // list of runs
  void documentChanged();  // text or overrides
  void errorsChanged();
  void busyChanged();
  void slotsChanged();
  void cursorChanged();
  void selectionChanged();
  void pointedAt();  // after selectionChanged
  void playChanged();
  void layoutChanged();
  void marksChanged();
  void failed(const QString& message);

 private:
  void load_in_background(const std::string& path);
  void document_changed();  // says so, and simulates it
  void simulate_document();
  void show_simulation(Outcome outcome);
  void set_run(RunPtr run);
  void tell_failure(const Error& error);
  Mark here() const;  // what toggle_mark would mark

  EditedDocument document_;
  std::vector<Error> errors_;
  OpenRuns runs_;
  RunPtr run_;
  bool show_next_simulation_ = false;
  Playback playback_;
  Arrangement arrangement_;
  Selection selection_;
  std::shared_ptr<std::atomic<int>> progress_;  // of the newest loading
  Latest loading_, simulating_;                 // last: they stop before the rest goes
};

}  // namespace lockstep::gui
