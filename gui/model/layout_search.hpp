// LayoutSearch: simulates the layouts of the scenario's cluster on other threads, and makes a table
// of those that it has found so far.
#pragma once

#include <QTimer>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/plan/search.hpp"
#include "gui/model/form/document.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/run/run_view.hpp"
#include "gui/model/run/table_model.hpp"

namespace lockstep::gui {

using FoundLayoutPtr = std::shared_ptr<const FoundLayout>;

/// What a search has found so far.
struct LayoutsFound {
  std::string task;                     // search_task(); empty until the scenario has been read
  std::string trained_on = "tokens";    // or "images"
  std::size_t families = 0, done = 0;   // all families, and those that were tried to the end
  int asked = 0, too_large = 0;         // layouts that were simulated, and those that do not fit
  std::vector<FoundLayoutPtr> layouts;  // fastest first
  std::vector<Error> errors;            // those with which the search has ended, if any
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
  FoundLayoutPtr layout;
  std::string name;
  int rank = 0;       // 1 for the fastest; 0 if it was not found, but is the open scenario
  bool open = false;  // whether it is the open scenario
};

/// The rows of the table, fastest first. `open` is the simulation of the open scenario, or null; it
/// has a row if it has the model, the batch and the cluster that were searched.
std::vector<LayoutRow> layout_rows(const LayoutsFound& found, const RunPtr& open);

TableContent layout_content(std::vector<LayoutRow> rows, const std::string& trained_on);

}  // namespace lockstep::gui
