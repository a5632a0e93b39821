// Notice: a line above the timeline that says why the picture is not what the controls say, or that
// the scenario does not fit and what would make it fit.
#pragma once

#include <QWidget>

#include "gui/model/session.hpp"

class QHBoxLayout;
class QLabel;

namespace lockstep::gui {

class Canvas;

/// Dims `canvas` while Session::outdated() says that its picture is not what the controls say. What
/// a simulation mends within a blink is not dimmed.
void dim_when_outdated(Canvas& canvas, Session& session);

class Notice final : public QWidget {
 public:
  explicit Notice(Session& session, QWidget* parent = nullptr);
  QString words() const;  // what it says; empty if it is hidden

 private:
  void refresh();

  Session& session_;
  QLabel* words_;
  QWidget* remedies_;
  QHBoxLayout* buttons_;
};

}  // namespace lockstep::gui
