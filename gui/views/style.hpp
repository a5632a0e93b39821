// Style: how buttons, fields, tabs, tables and panels look. Distances are multiples of four pixels,
// edges are one pixel in one colour, and whatever has the keyboard has a ring in the accent colour.
#pragma once

#include <QProxyStyle>

namespace lockstep::gui {

/// Draws over Qt's Fusion style with the colours of the widget's palette, so that light and dark
/// are one style.
class Style final : public QProxyStyle {
 public:
  Style();

  // NOLINTBEGIN(readability-identifier-naming): the names of Qt
  int pixelMetric(PixelMetric metric, const QStyleOption* option,
                  const QWidget* widget) const override;
  int styleHint(StyleHint hint, const QStyleOption* option, const QWidget* widget,
                QStyleHintReturn* data) const override;
  QSize sizeFromContents(ContentsType type, const QStyleOption* option, const QSize& size,
                         const QWidget* widget) const override;
  void drawPrimitive(PrimitiveElement element, const QStyleOption* option, QPainter* painter,
                     const QWidget* widget) const override;
  void drawControl(ControlElement element, const QStyleOption* option, QPainter* painter,
                   const QWidget* widget) const override;
  void drawComplexControl(ComplexControl control, const QStyleOptionComplex* option,
                          QPainter* painter, const QWidget* widget) const override;
  void polish(QWidget* widget) override;
  using QProxyStyle::polish;
  // NOLINTEND(readability-identifier-naming)
};

}  // namespace lockstep::gui
