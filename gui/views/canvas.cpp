#include "gui/views/canvas.hpp"

#include <QEvent>
#include <QPainter>

#include "gui/draw/painter.hpp"

namespace lockstep::gui {

Canvas::Canvas(QWidget* parent) : QWidget(parent) {
  setAttribute(Qt::WA_OpaquePaintEvent);
  setMouseTracking(true);
  setFocusPolicy(Qt::StrongFocus);
}

DisplayList Canvas::picture() const {
  DisplayList list = draw();
  list.append(draw_overlay());
  return list;
}

const Theme& Canvas::theme() const { return theme_for(palette()); }

TextSize Canvas::text() const { return text_size(font()); }

void Canvas::invalidate() {
  stale_ = true;
  update();
}

void Canvas::set_dimmed(bool dimmed) {
  if (dimmed == dimmed_) return;
  dimmed_ = dimmed;
  update();
}

void Canvas::paintEvent(QPaintEvent*) {
  const double ratio = devicePixelRatioF();
  const QSize pixels(qRound(width() * ratio), qRound(height() * ratio));
  if (image_.size() != pixels || image_.devicePixelRatio() != ratio) {
    image_ = QImage(pixels, QImage::Format_RGB32);
    image_.setDevicePixelRatio(ratio);
    stale_ = true;
  }
  if (stale_) {
    image_.fill(theme().color(Ink::Background));
    rasterize(image_, draw(), theme(), font());
    stale_ = false;
  }
  QPainter painter(this);
  painter.drawImage(0, 0, image_);
  paint(painter, draw_overlay(), theme(), font());
  if (dimmed_) {
    QColor veil = theme().color(Ink::Background);
    veil.setAlpha(150);
    painter.fillRect(rect(), veil);
  }
  if (hasFocus() && focusPolicy() != Qt::NoFocus) {  // as Style rings what has the keyboard
    painter.setPen(QPen(theme().color(Ink::Accent), 2));
    painter.drawRect(QRectF(rect()).adjusted(1, 1, -1, -1));
  }
}

void Canvas::resizeEvent(QResizeEvent*) { invalidate(); }

void Canvas::changeEvent(QEvent* event) {
  if (event->type() == QEvent::PaletteChange || event->type() == QEvent::FontChange) invalidate();
  QWidget::changeEvent(event);
}

}  // namespace lockstep::gui
