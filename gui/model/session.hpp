// Session: the state of the application. Views show it and change it by calls of it; they do not
// know each other. It lives on the GUI thread; other threads simulate and load.
#pragma once

#include <QElapsedTimer>
#include <QObject>
#include <QTimer>
#include <atomic>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/estimate/estimate.hpp"
#include "core/plan/remedies.hpp"
#include "gui/model/form/document.hpp"
#include "gui/model/form/kept_changes.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/run/open_runs.hpp"
#include "gui/model/run/run_view.hpp"
#include "gui/model/run/selection.hpp"
#include "gui/model/timeline/arrangement.hpp"
#include "gui/model/timeline/playback.hpp"
#include "gui/model/timeline/time_axis.hpp"

namespace lockstep::gui {

/// Something that is open, in the list of what is.
struct OpenItem {
  std::string title;      // "1f1b-p4-m8, simulated"
  RunPtr run;             // null for a scenario that has not been simulated yet, or has faults
  int document = -1;      // the id of a scenario's document; -1 for a run that was loaded
  bool modified = false;  // whether the scenario has changes that are not saved
};

/// A scenario that is open: its text with its history, and what it came to.
struct OpenDocument {
  int id = 0;
  EditedDocument edited;
  RunPtr simulation;             // the last one that has ended; null before the first
  std::vector<Error> errors;     // of the present text
  std::vector<Remedy> remedies;  // fastest first; of a simulation that does not fit
  bool remedies_known = false;   // whether they have been looked for to the end
  bool pending = false;          // changed since its last simulation was begun
  bool show_when_ready = false;  // its next simulation is shown, whatever is shown now
  qint64 took_ms = 0;            // its last simulation, until the picture could be drawn
};

/// The session consists of parts that change together: the document, the open runs, the cursor, and
/// what the user arranged. The parts contain the rules; the session emits signals of what changed,
/// and starts work that a change asks for.
class Session : public QObject {
  Q_OBJECT

 public:
  explicit Session(QObject* parent = nullptr);
  ~Session() override;

  // ---- what is open
  /// Opens a scenario, a run folder, a trace, a program's text or a schedule (.csv, which becomes a
  /// scenario that is not saved yet). What was open stays open. The result comes with a signal. If
  /// the file cannot be read, `failed` is emitted.
  void open(const std::string& path);
  /// Everything that is open, in the order in which it was opened.
  std::vector<OpenItem> items() const;
  /// The item that is shown: that of run(), or of the document if that has no run yet.
  bool is_shown(const OpenItem& item) const;
  void show(const OpenItem& item);
  void close(const OpenItem& item);    // changes that are not saved are lost
  RunPtr run() const { return run_; }  // the run shown now; null if none
  /// All open runs, in the order in which they were opened.
  const std::vector<RunPtr>& runs() const { return runs_.all(); }
  /// The last simulation of the document; null if the document has faults, or none has ended yet.
  RunPtr simulation() const {
    return document_ && document_->errors.empty() ? document_->simulation : nullptr;
  }
  void add(RunPtr run);   // adds a run, and shows it
  void show(RunPtr run);  // shows one of runs(); a simulation brings its document with it
  void close(const RunPtr& run);
  bool busy() const { return loading_.busy() || simulating_.busy(); }
  /// How far loading has come, in percent; -1 if that is not known.
  int progress() const { return loading_.busy() ? progress_->load() : -1; }
  void cancel();  // cancels whatever runs in the background
  /// Why the run shown is not what the controls say; empty if it is. A change of it comes with
  /// documentChanged, errorsChanged, busyChanged or runChanged. Where the last simulation took
  /// long, an estimate of the step and its memory is in it before the simulation ends.
  std::string outdated() const;

  // ---- the document: scenario text, edited and simulated as it changes
  bool has_document() const { return document_ != nullptr; }
  const Document& document() const { return document_->edited.now(); }  // requires has_document()
  /// The file of the scenario; empty if there is none yet.
  std::string path() const { return document_ ? document_->edited.path() : ""; }
  /// Changes the document, or opens one. Successive changes with the same non-empty `merge` are one
  /// step of undo. The simulation that follows is shown.
  void edit(Document document, const std::string& merge = {});
  /// Sets one override ("parallelism.pipeline_parallel_degree", "8"), or removes it if there is no
  /// value.
  void set_override(const std::string& key, const std::optional<std::string>& value);
  void undo();
  void redo();
  bool can_undo() const { return document_ && document_->edited.can_undo(); }
  bool can_redo() const { return document_ && document_->edited.can_redo(); }
  /// Faults of the document. If there are any, the run shown is that of the last text without
  /// faults.
  const std::vector<Error>& errors() const;
  /// See EditedDocument.
  bool has_own_file() const { return document_ && document_->edited.has_own_file(); }
  Result<std::string> command() const {
    return document_->edited.command();
  }  // requires has_document()
  /// Opens a layout of the document's scenario as a document of its own, named after it and not
  /// saved yet: the same text, with the values in which the layout differs.
  void open_layout(const Scenario& layout);
  bool is_modified() const { return document_ && document_->edited.is_modified(); }
  /// Writes the document to a file, sliders included. Errors are those of EditedDocument::save().
  Result<void> save(const std::string& path);
  /// Whether saving would overwrite what another program wrote into the file.
  bool is_changed_elsewhere() const {
    return document_ && document_->edited.is_changed_elsewhere();
  }
  /// Reads the scenarios again that another program has changed, if no change of ours would be
  /// lost. Returns their files.
  std::vector<std::string> reread();
  struct Reopened {
    std::string file;  // empty where there was none
    /// False if more than one session has died with it as it is: whatever ended them, it is not
    /// simulated before it changes.
    bool simulated = true;
    bool operator==(const Reopened&) const = default;
  };
  /// Opens again what sessions that were killed had not saved, and keeps in `folder` what this one
  /// has not.
  std::vector<Reopened> keep_changes_in(const QString& folder);
  /// What would make the document's simulation fit, if it does not; null while that is looked for.
  const std::vector<Remedy>* remedies() const;

  // ---- A and B
  RunPtr slot(Slot slot) const { return runs_.slot(slot); }
  void store(Slot slot, RunPtr run);

  // ---- time, selection, play
  SimTime cursor() const { return playback_.cursor(); }
  void set_cursor(SimTime time);  // stays inside the run
  /// The time that the timeline shows, and the pixels left of it; panels below use the same scale.
  const TimeAxis& axis() const { return axis_; }
  double axis_left() const { return axis_left_; }
  void set_axis(const TimeAxis& axis, double left);
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
  void profileChanged();   // a trace from elsewhere is shown for the first time
  void documentChanged();  // the text or the overrides have changed
  void errorsChanged();
  void remediesChanged();
  void busyChanged();
  void slotsChanged();
  void cursorChanged();
  void axisChanged();
  void selectionChanged();
  void pointedAt();  // emitted after selectionChanged by point_at()
  void playChanged();
  void layoutChanged();
  void marksChanged();
  void failed(const QString& message);

 private:
  void load_next();
  void document_changed();  // emits the signal, and simulates the document
  OpenDocument& add_document();
  void keep_changes();
  void simulate_next();  // the document that is shown first, if it is pending
  void take_simulation(int id, Outcome outcome);
  void look_for_remedies(const OpenDocument& document);
  void estimate(const OpenDocument& document);
  OpenDocument* find_document(int id) const;
  OpenDocument* document_of(const RunPtr& run) const;  // null if it is not a simulation of one
  void set_document(OpenDocument* document);
  void close_document(OpenDocument& document);
  void set_run(RunPtr run);
  void tell_failure(const Error& error);
  Mark here() const;  // what toggle_mark() would mark

  std::vector<std::unique_ptr<OpenDocument>> documents_;
  OpenDocument* document_ = nullptr;  // the one that is edited; null if none is open
  int documents_opened_ = 0;
  std::unique_ptr<KeptChanges> kept_;  // null unless asked for
  QTimer keep_soon_;                   // because typing and sliders change documents all the time
  int simulating_id_ = -1;             // the document that is being simulated
  QElapsedTimer simulating_since_;
  std::deque<std::string> to_load_;
  OpenRuns runs_;
  RunPtr run_;
  Playback playback_;
  Arrangement arrangement_;
  Selection selection_;
  TimeAxis axis_;
  double axis_left_ = 0;
  std::shared_ptr<std::atomic<int>> progress_;  // of the newest loading
  std::shared_ptr<Estimator> estimator_;        // remembers what it has seen, across changes
  std::optional<LayoutEstimate> estimate_;      // of what is being simulated
  Latest loading_, simulating_, estimating_,
      remedying_;  // the last members, so that they stop before the others go
};

}  // namespace lockstep::gui
