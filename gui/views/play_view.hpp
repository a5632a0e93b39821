// PlayView: shows a step as it happens. Space plays and pauses anywhere in the window.
#pragma once

#include <QElapsedTimer>
#include <QTimer>
#include <QWidget>

#include "gui/model/session.hpp"

class QComboBox;
class QPushButton;
class QSlider;

namespace lockstep::gui {

class PlayView final : public QWidget {
 public:
  explicit PlayView(Session& session, QWidget* parent = nullptr);
  QSize sizeHint() const override { return {800, 360}; }
  void toggle() { session_.set_playing(!session_.playing()); }
  /// Moves the cursor to the next moment at which a computation begins or ends, or to the one
  /// before if `direction` is below 0.
  void step(int direction);

 private:
  class Picture;

  void show_cursor();
  void show_play();

  Session& session_;
  QPushButton* play_;
  QSlider* scrub_;
  QComboBox* speed_;
  Picture* picture_;
  QTimer timer_;
  QElapsedTimer clock_;
};

}  // namespace lockstep::gui
