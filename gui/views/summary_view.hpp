// SummaryView: the numbers of the run shown, what the time of its ranks is spent on, and which
// ranks others wait for.
#pragma once

#include <QWidget>
#include <vector>

#include "gui/model/run/latest.hpp"
#include "gui/model/run/summary_model.hpp"
#include "gui/model/session.hpp"

class QLabel;
class QTableView;

namespace lockstep::gui {

class SummaryView final : public QWidget {
 public:
  explicit SummaryView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {460, 640}; }
  SummaryPtr model() const { return model_; }  // null if no run is shown

 private:
  class Picture;

  void on_run();
  void show_model(SummaryPtr model);

  Session& session_;
  SummaryPtr model_;
  QLabel* title_;
  std::vector<QLabel*> cards_;
  Picture* picture_;
  QLabel *straggler_, *staleness_;
  QTableView* table_;
  TableModel* ranks_;
  Latest reading_;  // the last member, so that it stops before the others are destroyed
};

}  // namespace lockstep::gui
