#include "gui/draw/painter.hpp"

#include <QFontMetricsF>
#include <QPainter>
#include <QPainterPath>
#include <algorithm>
#include <cmath>

#include "core/base/index_vector.hpp"

namespace lockstep::gui {
namespace {

constexpr float kNarrowestHatch = 5;  // pixels; narrower patterns cannot be recognized

Qt::BrushStyle brush_style(Hatch hatch) {
  switch (hatch) {
    case Hatch::Rising:
      return Qt::BDiagPattern;
    case Hatch::Falling:
      return Qt::FDiagPattern;
    case Hatch::Cross:
      return Qt::DiagCrossPattern;
    case Hatch::Upright:
      return Qt::VerPattern;
    case Hatch::Level:
      return Qt::HorPattern;
    case Hatch::Dots:
      return Qt::Dense6Pattern;
    case Hatch::None:
      break;
  }
  return Qt::NoBrush;
}

QRgb mixed(QRgb a, QRgb b, int part_of_b) {
  const auto mix = [part_of_b](int x, int y) {
    return (x * (255 - part_of_b) + y * part_of_b) / 255;
  };
  return qRgb(mix(qRed(a), qRed(b)), mix(qGreen(a), qGreen(b)), mix(qBlue(a), qBlue(b)));
}

}  // namespace

QColor hatch_color(const Fill& f, const Theme& theme) {
  return f.ink == Ink::Idle ? theme.color(f.ink) : theme.color(f.ink).darker(125);
}
bool shows_hatch(const Fill& f) { return f.hatch != Hatch::None && f.width >= kNarrowestHatch; }
bool shows_ink(const Fill& f) { return f.ink != Ink::Idle || f.hatch == Hatch::None; }

QRgb color_of(const Fill& f, const Theme& theme) {
  QRgb color = theme.color(f.ink).rgba();
  if (f.blend.of_other > 0)
    color = mixed(color, theme.color(f.blend.other).rgba(), f.blend.of_other);
  if (f.blend.idle > 0) color = mixed(color, theme.color(Ink::Background).rgba(), f.blend.idle);
  return color;
}

std::array<QPointF, 3> arrow_head(const Line& line) {
  const double angle = std::atan2(line.to.y() - line.from.y(), line.to.x() - line.from.x());
  const auto corner = [&](double turn) {
    return line.to - 7 * QPointF(std::cos(angle + turn), std::sin(angle + turn));
  };
  return {line.to, corner(0.45), corner(-0.45)};
}

namespace {

void paint_line(QPainter& painter, const Line& line, const Theme& theme) {
  QPen pen(theme.color(line.ink), line.width, line.dashed ? Qt::DashLine : Qt::SolidLine);
  painter.setPen(pen);
  const bool level = line.from.x() == line.to.x() || line.from.y() == line.to.y();
  painter.setRenderHint(QPainter::Antialiasing, !level);
  painter.drawLine(line.from, line.to);
  if (!line.arrow) return;
  painter.setRenderHint(QPainter::Antialiasing, true);
  painter.setPen(Qt::NoPen);
  painter.setBrush(theme.color(line.ink));
  const auto corners = arrow_head(line);
  painter.drawPolygon(QPolygonF(QList<QPointF>(corners.begin(), corners.end())));
}

void paint_polyline(QPainter& painter, const Polyline& p, const Theme& theme) {
  painter.setRenderHint(QPainter::Antialiasing, true);
  painter.setPen(p.width > 0 ? QPen(theme.color(p.ink), p.width) : QPen(Qt::NoPen));
  painter.setBrush(p.fill ? QBrush(theme.color(p.ink)) : QBrush(Qt::NoBrush));
  const QPolygonF polygon(QList<QPointF>(p.points.begin(), p.points.end()));
  if (p.fill) {
    painter.drawPolygon(polygon);
  } else {
    painter.drawPolyline(polygon);
  }
}

class TextPainter {
 public:
  TextPainter(QPainter& painter, const Theme& theme, const QFont& font)
      : painter_(painter), theme_(theme), plain_(font), bold_(font), small_(font) {
    bold_.setBold(true);
    small_.setPointSizeF(font.pointSizeF() * 0.85);
  }
  void paint(const Text& t) {
    painter_.setFont(t.bold ? bold_ : t.small ? small_ : plain_);
    painter_.setPen(t.on_ink ? theme_.text_on(t.ink) : theme_.color(t.ink));
    const Qt::Alignment align = t.align == Align::Left     ? Qt::AlignLeft
                                : t.align == Align::Center ? Qt::AlignHCenter
                                                           : Qt::AlignRight;
    painter_.drawText(t.rect, static_cast<int>(align | Qt::AlignVCenter) | Qt::TextSingleLine,
                      QString::fromStdString(t.text));
  }

 private:
  QPainter& painter_;
  const Theme& theme_;
  QFont plain_, bold_, small_;
};

/// Paints everything except the insides of boxes.
void paint_rest(QPainter& painter, const DisplayList& list, const Theme& theme, const QFont& font) {
  for (const Polyline& p : list.polylines) paint_polyline(painter, p, theme);
  for (const Line& line : list.lines) paint_line(painter, line, theme);
  painter.setRenderHint(QPainter::Antialiasing, false);
  painter.setBrush(Qt::NoBrush);
  for (const Outline& o : list.outlines) {
    QPen pen(theme.color(o.ink), o.width);
    pen.setJoinStyle(Qt::MiterJoin);
    painter.setPen(pen);
    painter.drawRect(o.rect);
  }
  TextPainter text(painter, theme, font);
  for (const Text& t : list.texts) text.paint(t);
}

/// Writes boxes into rows of pixels. A box covers the pixels whose centres it covers, and at least
/// one column, so that none vanishes.
class PixelRows {
 public:
  PixelRows(QImage& image, const Theme& theme)
      : theme_(theme),
        bits_(reinterpret_cast<QRgb*>(image.bits())),
        stride_(image.bytesPerLine() / 4),
        width_(image.width()),
        height_(image.height()),
        scale_(static_cast<float>(image.devicePixelRatio())),
        period_(std::max(1, static_cast<int>(6 * scale_))) {
    for (std::size_t i = 0; i < colors_.size(); ++i) colors_[i] = theme.colors[i].rgba();
  }

  void fill(const Fill& f) {
    const int x0 = std::max(pixel(f.x), 0), y0 = std::max(pixel(f.y), 0);
    const int x1 = std::min(std::max(pixel(f.x + f.width), pixel(f.x) + 1), width_);
    const int y1 = std::min(pixel(f.y + f.height), height_);
    if (x0 >= x1) return;
    const bool plain = f.blend.of_other == 0 && f.blend.idle == 0;
    const QRgb color = plain ? colors_[f.ink] : color_of(f, theme_);
    const bool hatched = shows_hatch(f);
    const QRgb pattern = hatched ? hatch_color(f, theme_).rgba() : 0;
    for (int y = y0; y < y1; ++y) {
      QRgb* row = bits_ + static_cast<std::ptrdiff_t>(y) * stride_;
      if (shows_ink(f)) {
        if (qAlpha(color) == 255) {
          std::fill(row + x0, row + x1, color);
        } else {
          for (int x = x0; x < x1; ++x) row[x] = mixed(row[x], color, qAlpha(color));
        }
      }
      if (!hatched) continue;
      for (int x = x0; x < x1; ++x) {
        if (on_pattern(f.hatch, x, y)) row[x] = pattern;
      }
    }
  }

 private:
  bool on_pattern(Hatch hatch, int x, int y) const {
    switch (hatch) {
      case Hatch::Rising:
        return (x + y) % period_ == 0;
      case Hatch::Falling:
        return (x - y + 64 * period_ * period_) % period_ == 0;
      case Hatch::Cross:
        return on_pattern(Hatch::Rising, x, y) || on_pattern(Hatch::Falling, x, y);
      case Hatch::Upright:
        return x % period_ == 0;
      case Hatch::Level:
        return y % period_ == 0;
      case Hatch::Dots:
        return 2 * x % period_ == 0 && 2 * y % period_ == 0;
      case Hatch::None:
        break;
    }
    return false;
  }
  int pixel(float v) const {
    return static_cast<int>(std::floor(std::clamp(v * scale_, -1e6F, 1e6F) + 0.5F));
  }

  const Theme& theme_;
  QRgb* bits_;
  std::ptrdiff_t stride_;
  int width_, height_;
  float scale_;
  int period_;  // period of patterns, in device pixels
  IndexArray<Ink, QRgb, kNumInks> colors_;
};

}  // namespace

void paint(QPainter& painter, const DisplayList& list, const Theme& theme, const QFont& font) {
  painter.save();
  painter.setRenderHint(QPainter::Antialiasing, false);
  for (const Fill& f : list.fills) {
    const QRectF rect(f.x, f.y, f.width, f.height);
    if (shows_ink(f)) painter.fillRect(rect, QColor::fromRgba(color_of(f, theme)));
    if (shows_hatch(f)) painter.fillRect(rect, QBrush(hatch_color(f, theme), brush_style(f.hatch)));
  }
  paint_rest(painter, list, theme, font);
  painter.restore();
}

void rasterize(QImage& image, const DisplayList& list, const Theme& theme, const QFont& font) {
  PixelRows rows(image, theme);
  for (const Fill& f : list.fills) rows.fill(f);
  QPainter painter(&image);
  paint_rest(painter, list, theme, font);
}

TextSize text_size(const QFont& font) {
  thread_local QFont known;
  thread_local TextSize size{0, 0, {}};
  if (size.line_height > 0 && font == known) return size;  // kept, as every picture asks for it
  known = font;
  const QFontMetricsF metrics(font);
  size = {metrics.averageCharWidth() * 1.15, metrics.height(), {}};
  for (std::size_t c = ' '; c < size.ascii.size(); ++c) {
    size.ascii[c] = static_cast<float>(metrics.horizontalAdvance(QChar(static_cast<char>(c))));
  }
  return size;
}

}  // namespace lockstep::gui
