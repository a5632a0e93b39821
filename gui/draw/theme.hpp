// Theme: the colours of the inks, light or dark.
#pragma once

#include <QColor>
#include <QPalette>
#include <array>

#include "core/base/index_vector.hpp"
#include "gui/draw/ink.hpp"

namespace lockstep::gui {

/// Colours of boxes are the eight of Okabe and Ito, which people with any colour blindness can tell
/// apart. Collectives are shades of their purple, and each has a pattern (see hatch_of()).
struct Theme {
  bool dark = false;
  IndexArray<Ink, QColor, kNumInks> colors;
  const QColor& color(Ink ink) const { return colors[ink]; }
  /// Black or white, whichever reads better on `ink`.
  QColor text_on(Ink ink) const;
};

const Theme& light_theme();
const Theme& dark_theme();
/// The theme that suits a palette, by the colour of its window, because Qt 6.4 does not tell.
const Theme& theme_for(const QPalette& palette);
/// The palette of the application's widgets.
QPalette palette_of(const Theme& theme);

/// The contrast of two colours by WCAG 2.1, from 1 (equal) to 21.
double contrast(const QColor& a, const QColor& b);

}  // namespace lockstep::gui
