// Canvas: a widget that shows display lists. The picture is kept between paints; what moves with
// the mouse or the clock is drawn over it.
#pragma once

#include <QImage>
#include <QWidget>

#include "gui/draw/display_list.hpp"
#include "gui/draw/theme.hpp"

namespace lockstep::gui {

class Canvas : public QWidget {
 public:
  explicit Canvas(QWidget* parent = nullptr);

  /// The picture as it is now, overlay included: for SVG and PNG files and for tests.
  DisplayList picture() const;
  const Theme& theme() const;

 protected:
  /// The picture for size(). Called when invalidate() or a resize asked for it.
  virtual DisplayList draw() const = 0;
  /// What lies over it. Called for every paint; cheap.
  virtual DisplayList draw_overlay() const { return {}; }
  TextSize text() const;
  /// The picture has changed; update() alone redraws the overlay.
  void invalidate();

  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  QImage image_;
  bool stale_ = true;
};

}  // namespace lockstep::gui
