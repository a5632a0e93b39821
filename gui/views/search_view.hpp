// SearchView: searches the layouts of the open scenario's cluster, and shows them as points of time
// against memory and as a list with the best first; each can be opened.
#pragma once

#include <QWidget>

#include "gui/model/layout_search.hpp"
#include "gui/model/session.hpp"
#include "gui/views/command.hpp"
#include "gui/views/layouts_canvas.hpp"

class QLabel;
class QPushButton;
class QTableView;

namespace lockstep::gui {

class SearchView final : public QWidget, public CommandSource {
 public:
  explicit SearchView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {800, 360}; }
  void start();  // searches for the open scenario; does nothing if none is open
  const LayoutSearch& search() const { return search_; }

  QString commands_title() const override { return "Search"; }
  std::vector<Command> commands() override;
  std::vector<std::pair<QString, QString>> gestures() const override;

 private:
  class OpenInBold;

  QWidget* make_controls();
  void make_table();
  void show_search();
  void show_state();
  void show_rows();
  void open(const LayoutRow& row);
  /// The line of the table that shows a row of rows_; -1: none.
  int line_of(int row) const;

  Session& session_;
  QPushButton *start_ = nullptr, *stop_ = nullptr;
  QLabel* state_ = nullptr;
  LayoutsCanvas* canvas_;
  QTableView* table_;
  TableModel* model_;
  std::vector<LayoutRow> rows_;  // the rows of model_
  LayoutSearch search_;          // the last member, so that it ends before what it calls back
};

}  // namespace lockstep::gui
