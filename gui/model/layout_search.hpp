// LayoutSearch: the layouts of the scenario's cluster, simulated on other threads, as they are
// found; and the table of them.
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

/// What a search knows.
struct LayoutsFound {
  std::string task;                     // search_task; empty until the scenario is read
  std::string trained_on = "tokens";    // or images
  std::size_t families = 0, done = 0;   // of them, to the end
  int asked = 0, too_large = 0;         // layouts
  std::vector<FoundLayoutPtr> layouts;  // fastest first
  std::vector<Error> errors;            // if there are any, it has ended with them
};

class LayoutSearch {
 public:
  /// `changed` is called on the GUI thread, when a search begins, knows more and ends.
  explicit LayoutSearch(std::function<void()> changed);

  /// Searches for the document as the Session simulates it, instead of what is searched for now.
  /// `file` names its text in errors.
  void start(const Document& document, const std::string& file);
  /// What is found stays; at the end of a search it is what `lockstep search` finds.
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
  std::shared_ptr<News> news_;  // of the search that runs
  QTimer timer_;
  Latest searching_;  // last: it stops before the rest goes
};

struct LayoutRow {
  FoundLayoutPtr layout;
  std::string name;
  int rank = 0;       // 1: the fastest; 0: was not found, but is open
  bool open = false;  // the scenario that is open
};

/// Fastest first. `open`: the simulation of the scenario that is open, or null; it has a row if it
/// is of the model, batch and cluster that were searched.
std::vector<LayoutRow> layout_rows(const LayoutsFound& found, const RunPtr& open);

TableContent layout_content(std::vector<LayoutRow> rows, const std::string& trained_on);

}  // namespace lockstep::gui
