// TablesView: the timeline as tables, for keyboards, screen readers and sorting: spans, bubbles,
// statistics of the selected area, the critical path, and marks.
#pragma once

#include <QWidget>

#include "gui/model/session.hpp"
#include "gui/model/timeline/timeline_tables.hpp"

class QLabel;
class QTabWidget;
class QTableView;

namespace lockstep::gui {

class TablesView final : public QWidget {
 public:
  explicit TablesView(Session& session, QWidget* parent = nullptr);

 private:
  struct Page {
    std::function<TimelineTable(const RunPtr&, const Selection&)> make;
    QTableView* view = nullptr;
    TableModel* model = nullptr;
    std::function<Selection(std::size_t)> target;
    bool stale = true;
  };
  void add_page(const char* title, const char* name, decltype(Page::make) make);
  void outdate();
  void show_page();
  void follow(Page& page, int row);
  void export_csv();

  Session& session_;
  QTabWidget* tabs_;
  QLabel* scope_;
  std::vector<Page> pages_;
  Selection area_;          // the selection without its span, which the pages show
  bool following_ = false;  // whether this view is the one that changes the selection
};

}  // namespace lockstep::gui
