// LayoutSearch: searches the layouts of the scenario's cluster on other threads, and makes a table
// and a cloud of points of those that it has judged so far.
#pragma once

#include <QTimer>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/best_first.hpp"
#include "gui/model/form/document.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/run/run_view.hpp"
#include "gui/model/run/table_model.hpp"

namespace lockstep::gui {

/// A layout that a search has judged: by its estimate, and the best of them by their simulation.
struct JudgedLayout {
  std::string name, family;
  Scenario scenario;
  Seconds step_time;      // simulated if it was simulated, and else estimated
  Bytes needed;           // likewise, of the rank that needs most
  double throughput = 0;  // tokens/s, or images/s for a vision model
  std::optional<LayoutFigures> simulated;
  std::optional<EstimatedLayout> estimated;  // with the settings that all layouts have
  LayoutPoint point;                         // none if a search did not find it
};
using JudgedLayoutPtr = std::shared_ptr<const JudgedLayout>;

/// What a search has found so far.
struct LayoutsFound {
  std::string task;                   // search_task(); empty until the scenario has been read
  std::string trained_on = "tokens";  // or "images"
  SpaceCounts counts;
  std::vector<JudgedLayoutPtr> layouts;  // that fit: those that were simulated first, then fastest
  std::vector<LostFamily> lost;          // families without such a layout; when it has ended
  Bytes capacity;                        // of a rank; 0: no limit
  bool stopped = false;                  // before its end
  std::vector<Error> errors;             // those with which the search has ended, if any
};

class LayoutSearch {
 public:
  /// `changed` is called on the GUI thread when a search begins, has found more, and ends.
  explicit LayoutSearch(std::function<void()> changed);

  /// Begins a search for the document, as the Session simulates it, and ends the search that runs.
  /// `file` names the document's text in errors.
  void start(const Document& document, const std::string& file);
  /// Ends the search. What it has found stays.
  void stop();
  bool active() const { return searching_.busy(); }
  const LayoutsFound& found() const { return found_; }

 private:
  struct News;

  static LayoutsFound searched(const Document& document, const std::string& file, News& news,
                               const Cancelled& cancelled);
  void take_news();

  std::function<void()> changed_;
  LayoutsFound found_;
  std::shared_ptr<News> news_;  // those of the running search
  QTimer timer_;
  Latest searching_;  // the last member, so that it stops before the others are destroyed
};

struct LayoutRow {
  JudgedLayoutPtr layout;
  int rank = 0;        // 1 for the best; 0 if it was not found, but is the open scenario
  bool open = false;   // whether it is the open scenario
  bool front = false;  // whether no faster layout needs less memory
  bool best_of_family = false;
  std::string because;  // why it is slower than the best; empty if it is the best or not known
};

/// The rows of the table, best first. `open` is the simulation of the open scenario, or null; it
/// has a row if it has the model, the batch and the cluster that were searched.
std::vector<LayoutRow> layout_rows(const LayoutsFound& found, const RunPtr& open);

TableContent layout_content(std::vector<LayoutRow> rows, const std::string& trained_on);

}  // namespace lockstep::gui
