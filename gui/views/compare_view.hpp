// CompareView: two runs side by side: their timelines on one scale, and what they differ in.
#pragma once

#include <QWidget>

#include "gui/model/run/comparison_model.hpp"
#include "gui/model/run/latest.hpp"
#include "gui/model/run/open_runs.hpp"
#include "gui/model/session.hpp"

class QComboBox;
class QLabel;
class QPushButton;
class QTabBar;
class QTableView;

namespace lockstep::gui {

class CompareView final : public QWidget {
 public:
  explicit CompareView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {800, 320}; }
  ComparisonPtr model() const { return model_; }  // null if there are not two runs
  /// Simulates a scenario, and compares with it (A) the trace from elsewhere that is shown (B).
  void simulate_beside(const std::string& scenario);

 private:
  class Picture;

  QComboBox* add_choice(Slot slot);
  void fill_choice(QComboBox& choice, Slot slot, const RunPtr& compared);
  void on_runs();
  void choose_scenario();
  void show_model(ComparisonPtr model);
  void show_table();
  void follow(int row);
  void show_step(int step);
  void go_to(const RunPtr& run, const Place& place);

  Session& session_;
  ComparisonPtr model_;
  std::pair<RunPtr, RunPtr> wanted_;
  QComboBox *choose_a_, *choose_b_;
  QComboBox* choose_step_;
  QPushButton* simulate_;
  QLabel *conclusion_, *verdict_;
  Picture* picture_;
  QTabBar* tabs_;
  QTableView* table_;
  TableModel* rows_;
  Latest comparing_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
