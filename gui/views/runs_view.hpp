// RunsView: lists the open runs, and starts, watches, stops and follows training.
#pragma once

#include <QWidget>

#include "gui/model/run/live_run.hpp"
#include "gui/model/session.hpp"

class QComboBox;
class QLabel;
class QListWidget;
class QPushButton;
class QSpinBox;

namespace lockstep::gui {

class RunsView final : public QWidget {
 public:
  explicit RunsView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {380, 500}; }
  const LiveRun& live() const { return live_; }
  const std::vector<StepMetrics>& charted() const;  // the steps whose curves are drawn
  /// Sets the folder in which runs of this application are kept.
  void set_folder(std::string folder) { folder_ = std::move(folder); }

 private:
  class Charts;

  QWidget* make_buttons();
  QWidget* make_list();
  std::optional<OpenItem> chosen() const;
  void keep(Slot slot);
  void start();
  void follow();
  void show_runs();
  void show_live();
  void show_charts();
  void show_document();

  Session& session_;
  std::string folder_;
  QComboBox* backend_ = nullptr;
  QSpinBox* steps_ = nullptr;
  QPushButton *start_ = nullptr, *stop_ = nullptr, *follow_ = nullptr;
  QLabel* state_ = nullptr;
  Charts* charts_ = nullptr;
  QListWidget* list_ = nullptr;
  std::string opened_;  // folder of the last run that was opened when it ended
  LiveRun live_;        // the last member, so that it ends before what it calls back
};

}  // namespace lockstep::gui
