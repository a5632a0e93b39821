// Canvas: a widget that shows display lists. The picture is kept between paints; what changes with
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

  /// The picture as it is now, with the overlay, for SVG and PNG files and for tests.
  DisplayList picture() const;
  const Theme& theme() const;
  /// A dimmed picture is there to be compared with, but is not what the controls say.
  void set_dimmed(bool dimmed);
  bool dimmed() const { return dimmed_; }

 protected:
  /// Draws the picture for size(). It is called after invalidate() or a resize.
  virtual DisplayList draw() const = 0;
  /// Draws what lies over the picture. It is called for every paint and must be fast.
  virtual DisplayList draw_overlay() const { return {}; }
  TextSize text() const;
  /// Says that the picture has changed. update() alone redraws the overlay only.
  void invalidate();

  void paintEvent(QPaintEvent* event) override;
  void resizeEvent(QResizeEvent* event) override;
  void changeEvent(QEvent* event) override;

 private:
  QImage image_;
  bool stale_ = true, dimmed_ = false;
};

}  // namespace lockstep::gui
