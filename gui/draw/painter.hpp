// Painter: draws display lists on the screen, into a picture, or into a vector file.
#pragma once

#include <QFont>
#include <QImage>

#include "gui/draw/display_list.hpp"
#include "gui/draw/theme.hpp"

class QPainter;

namespace lockstep::gui {

/// Draws with any painter, for SVG, PDF and overlays.
void paint(QPainter& painter, const DisplayList& list, const Theme& theme, const QFont& font);

/// Draws into `image` (Format_RGB32 or ARGB32_Premultiplied), at its device-pixel ratio. Boxes are
/// written straight into the rows of pixels, which for a hundred thousand boxes is ten times faster
/// than QPainter.
void rasterize(QImage& image, const DisplayList& list, const Theme& theme, const QFont& font);

/// The colour of a box: its ink, with what is blended into it; and that of its pattern.
QRgb color_of(const Fill& fill, const Theme& theme);
QColor hatch_color(const Fill& fill, const Theme& theme);
bool shows_hatch(const Fill& fill);  // false for a box that is too narrow for a pattern
/// The hatch of a bubble is drawn on what is below it, any other hatch on its own ink.
bool shows_ink(const Fill& fill);
/// The corners of the head of an arrow.
std::array<QPointF, 3> arrow_head(const Line& line);

/// The sizes of `font`, for drawings that ask whether a text fits.
TextSize text_size(const QFont& font);

}  // namespace lockstep::gui
