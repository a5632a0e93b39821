// Session: the application's state. Views show it and change it through it; they do not know each
// other. Lives on the GUI thread; simulating and loading happen on others.
#pragma once

#include <QObject>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "gui/model/history.hpp"
#include "gui/model/latest.hpp"
#include "gui/model/run_view.hpp"
#include "gui/model/timeline_layout.hpp"
#include "gui/model/view_state.hpp"

namespace lockstep::gui {

/// What is being edited: a scenario's text, and what the sliders put over it.
struct Document {
  std::string text;
  std::vector<std::string> overrides;  // "section.key=value", one per key
  bool operator==(const Document&) const = default;
};
/// Adds "section.key=value", in the place of one of the same key.
void put_override(std::vector<std::string>& overrides, const std::string& entry);

/// What the user points at, in the run shown. Empty ranks: all.
struct Selection {
  std::optional<SpanId> span;
  std::optional<TimeRange> range;  // an area of the timeline
  std::vector<Rank> ranks;         // of the area, ascending
  bool operator==(const Selection&) const = default;
};

enum class Slot { A, B };

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
  const std::string& path() const { return path_; }  // of the scenario; empty: none is open
  RunPtr run() const { return run_; }                // shown now; null: none
  /// Every run that is open, the simulation of the document first if there is one.
  const std::vector<RunPtr>& runs() const { return runs_; }
  /// Of the document, as it was last simulated; null: it has faults, or there is none yet.
  RunPtr simulation() const { return errors_.empty() ? simulation_ : nullptr; }
  void add(RunPtr run);   // shows it too
  void show(RunPtr run);  // one of runs()
  void close(const RunPtr& run);
  bool busy() const { return loading_.busy() || simulating_.busy(); }
  /// How far loading has come, in percent; -1: nobody knows.
  int progress() const { return loading_.busy() ? progress_->load() : -1; }
  void cancel();  // whatever is in the background

  // ---- the document: scenario text, edited and simulated as it changes
  bool has_document() const { return has_document_; }
  const Document& document() const { return history_.now(); }
  /// Changes of the same non-empty `merge` in a row are one step of undo.
  void edit(Document document, const std::string& merge = {});
  /// Sets one override ("parallelism.pipeline_parallel_degree", "8"); no value: takes it away.
  void set_override(const std::string& key, const std::optional<std::string>& value);
  void undo();
  void redo();
  bool can_undo() const { return has_document_ && history_.can_undo(); }
  bool can_redo() const { return has_document_ && history_.can_redo(); }
  /// Faults of the document; the run shown is then that of the last text without any.
  const std::vector<Error>& errors() const { return errors_; }
  bool is_modified() const { return has_document_ && document().text != saved_text_; }
  /// Writes the document's text. Error: Device.
  Result<void> save(const std::string& path);

  // ---- A and B
  RunPtr slot(Slot slot) const { return slots_[static_cast<int>(slot)]; }
  void store(Slot slot, RunPtr run);

  // ---- time, selection, play
  SimTime cursor() const { return cursor_; }
  void set_cursor(SimTime time);  // stays inside the run
  const Selection& selection() const { return selection_; }
  void select(Selection selection);
  /// Selects, sets the cursor there and asks the timeline to bring it into view: what a table's row
  /// or a caption points at.
  void point_at(Selection selection);
  bool playing() const { return playing_; }
  void set_playing(bool playing);  // from the begin if the cursor is at the end
  /// Seconds that playing the whole run takes.
  double play_seconds() const { return play_seconds_; }
  void set_play_seconds(double seconds);
  /// Moves the cursor by `seconds` of the user's time; stops at the end of the run.
  void advance(double seconds);

  // ---- the timeline's rows and marks, kept per file
  const LayoutChoice& layout() const { return layout_; }
  void set_layout(LayoutChoice layout);
  const std::vector<Mark>& marks() const { return marks_; }  // of the run shown, in order of time
  /// Marks the selected span or area, else the cursor; what is marked already is unmarked.
  void toggle_mark();
  void go_to_mark(bool forward);  // the next one, or the one before; once around
  /// By path of a file: what was arranged and marked in it, if anything.
  std::map<std::string, ViewState> views() const;
  void set_views(std::map<std::string, ViewState> views) { views_ = std::move(views); }

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
  void simulate_document();
  void show_simulation(Outcome outcome);
  void set_run(RunPtr run);
  Mark here() const;  // what toggle_mark would mark

  std::string path_;
  bool has_document_ = false;
  bool show_next_simulation_ = false;
  std::string saved_text_;
  History<Document> history_;
  std::vector<Error> errors_;
  std::vector<RunPtr> runs_;
  RunPtr run_, simulation_;
  RunPtr slots_[2];
  SimTime cursor_{};
  Selection selection_;
  bool playing_ = false;
  double play_seconds_ = 20;
  LayoutChoice layout_;
  std::vector<Mark> marks_;
  std::map<std::string, ViewState> views_;      // of the files that are not shown now
  std::shared_ptr<std::atomic<int>> progress_;  // of the newest loading
  Latest loading_, simulating_;                 // last: they stop before the rest goes
};

}  // namespace lockstep::gui
