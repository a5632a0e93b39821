// TimelinePanel: the timeline, with its search and filter above it, and below it the legend and a
// description of what is under the mouse.
#pragma once

#include <QWidget>

#include "gui/model/session.hpp"
#include "gui/views/command.hpp"

class QLabel;
class QLineEdit;
class QToolButton;

namespace lockstep::gui {

class StartPage;
class TimelineView;

class TimelinePanel final : public QWidget, public CommandSource {
 public:
  explicit TimelinePanel(Session& session, QWidget* parent = nullptr);
  TimelineView& timeline() const { return *timeline_; }
  StartPage& start() const { return *start_; }  // shown while nothing is open

  QString commands_title() const override;
  std::vector<Command> commands() override;
  std::vector<std::pair<QString, QString>> gestures() const override;

 protected:
  bool eventFilter(QObject* watched, QEvent* event) override;
  void keyPressEvent(QKeyEvent* event) override;  // gets keys that the timeline does not take

 private:
  std::vector<Command> own_commands();
  void find(bool forward);
  void count_matches();
  void show_start();

  Session& session_;
  StartPage* start_;
  TimelineView* timeline_;
  QWidget* bar_;
  QLineEdit* filter_;
  QLineEdit* search_;
  QLabel* matches_;
  QToolButton* path_;
  QLabel* hover_;
};

}  // namespace lockstep::gui
