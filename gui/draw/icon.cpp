#include "gui/draw/icon.hpp"

#include <QPainter>
#include <QPainterPath>
#include <QPixmap>

namespace lockstep::gui {
namespace {

constexpr int kIconSide = 16;  // in units of the paths below
constexpr int kIconScale = 4;  // pixels per unit, so that large icons are sharp

QPainterPath triangle(QPointF a, QPointF b, QPointF c) {
  QPainterPath path;
  path.addPolygon(QPolygonF({a, b, c, a}));
  return path;
}

/// The filled shape of a sign in a square of kIconSide.
QPainterPath shape_of(Sign sign) {
  QPainterPath path;
  switch (sign) {
    case Sign::Play:
      return triangle({4, 2}, {4, 14}, {14, 8});
    case Sign::Pause:
      path.addRect(4, 2, 3, 12);
      path.addRect(9, 2, 3, 12);
      return path;
    case Sign::ToStart:
      path.addRect(2, 3, 2, 10);
      path.addPath(triangle({13, 3}, {13, 13}, {5, 8}));
      return path;
    case Sign::StepBack:
      return triangle({11, 3}, {11, 13}, {4, 8});
    case Sign::StepForward:
      return triangle({5, 3}, {5, 13}, {12, 8});
    case Sign::Exchange:
      path.addRect(2, 4, 8, 2);
      path.addPath(triangle({10, 1.5}, {10, 8.5}, {14, 5}));
      path.addRect(6, 10, 8, 2);
      path.addPath(triangle({6, 7.5}, {6, 14.5}, {2, 11}));
      return path;
    case Sign::Close:
    case Sign::Open:
    case Sign::Save:
    case Sign::Search:
      return path;
  }
  return path;
}

/// Draws the signs that consist of lines.
void draw_lines(QPainter& painter, Sign sign) {
  switch (sign) {
    case Sign::Close:
      painter.drawLine(QPointF(4, 4), QPointF(12, 12));
      painter.drawLine(QPointF(12, 4), QPointF(4, 12));
      return;
    case Sign::Open:
      painter.drawPolyline(QPolygonF({{2, 13}, {2, 3}, {6, 3}, {8, 5}, {13, 5}, {13, 7}}));
      painter.drawPolygon(QPolygonF({{2, 13}, {4.5, 7}, {15, 7}, {12.5, 13}}));
      return;
    case Sign::Save:
      painter.drawPolyline(QPolygonF({{2, 10}, {2, 14}, {14, 14}, {14, 10}}));
      painter.drawLine(QPointF(8, 2), QPointF(8, 10));
      painter.drawPolyline(QPolygonF({{5, 7}, {8, 10}, {11, 7}}));
      return;
    case Sign::Search:
      painter.drawEllipse(QPointF(7, 7), 4.5, 4.5);
      painter.drawLine(QPointF(10.5, 10.5), QPointF(14, 14));
      return;
    default:
      return;
  }
}

QPixmap pixmap_of(Sign sign, const QColor& color) {
  QPixmap pixmap(kIconSide * kIconScale, kIconSide * kIconScale);
  pixmap.fill(Qt::transparent);
  QPainter painter(&pixmap);
  painter.setRenderHint(QPainter::Antialiasing);
  painter.scale(kIconScale, kIconScale);
  painter.fillPath(shape_of(sign), color);
  painter.setPen(QPen(color, 1.6, Qt::SolidLine, Qt::RoundCap, Qt::RoundJoin));
  draw_lines(painter, sign);
  return pixmap;
}

}  // namespace

QIcon icon_of(Sign sign, const QPalette& palette) {
  QIcon icon(pixmap_of(sign, palette.color(QPalette::Active, QPalette::ButtonText)));
  icon.addPixmap(pixmap_of(sign, palette.color(QPalette::Disabled, QPalette::ButtonText)),
                 QIcon::Disabled);
  return icon;
}

}  // namespace lockstep::gui
