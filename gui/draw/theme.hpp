// Theme: the colours of the inks, light or dark.
#pragma once

#include <QColor>
#include <QPalette>
#include <array>

#include "gui/draw/ink.hpp"

namespace lockstep::gui {

/// Colours of boxes are Okabe and Ito's eight, which stay apart under every colour blindness;
/// collectives are shades of their purple and have a pattern each (Ink: hatch_of).
struct Theme {
  bool dark = false;
  std::array<QColor, kNumInks> colors;
  const QColor& color(Ink ink) const { return colors[ink]; }
  /// Black or white, whichever reads better on `ink`.
  QColor text_on(Ink ink) const;
};

const Theme& light_theme();
const Theme& dark_theme();
/// The theme that suits a palette: Qt 6.4 does not tell, its window colour does.
const Theme& theme_for(const QPalette& palette);
/// What the widgets of the application wear.
QPalette palette_of(const Theme& theme);

/// WCAG 2.1: from 1 (equal) to 21.
double contrast(const QColor& a, const QColor& b);

}  // namespace lockstep::gui
