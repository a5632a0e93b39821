// Painter: draws display lists, on screen, into a picture or into a vector file.
#pragma once

#include <QFont>
#include <QImage>

#include "gui/draw/display_list.hpp"
#include "gui/draw/theme.hpp"

class QPainter;

namespace lockstep::gui {

/// With any painter: SVG, PDF, overlays.
void paint(QPainter& painter, const DisplayList& list, const Theme& theme, const QFont& font);

/// Into `image` (Format_RGB32 or ARGB32_Premultiplied, its device-pixel ratio respected): boxes are
/// written straight into the rows of pixels, which is ten times faster than QPainter where there
/// are a hundred thousand of them.
void rasterize(QImage& image, const DisplayList& list, const Theme& theme, const QFont& font);

/// What `font` takes, for drawings that ask whether a text fits.
TextSize text_size(const QFont& font);

}  // namespace lockstep::gui
