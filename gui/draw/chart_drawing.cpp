#include "gui/draw/chart_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace lockstep::gui {
namespace {

constexpr double kLeastTick = 40;  // pixels between the lines of the scale

double nice(double at_least) {
  const double power = std::pow(10, std::floor(std::log10(at_least)));
  for (double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= at_least * (1 - 1e-9)) return factor * power;
  }
  return 10 * power;
}

std::string number(double v) {
  char text[32];
  std::snprintf(text, sizeof text, std::abs(v) >= 10000 ? "%.0f" : "%.4g", v);
  return text;
}

}  // namespace

DisplayList draw_chart(const Chart& chart, QRectF rect, const TextSize& text) {
  DisplayList list;
  list.fill(rect, Ink::Background);
  const double line = text.line_height;
  const auto finite = [](const QPointF& p) { return std::isfinite(p.y()); };
  const auto last = std::find_if(chart.points.rbegin(), chart.points.rend(), finite);
  std::string title = chart.title;
  if (last != chart.points.rend()) title += "  " + number(last->y());
  const double gutter = text.width_of("0000000") + 8;
  list.texts.push_back({{rect.x() + gutter, rect.y() + 2, rect.width() - gutter - 4, line},
                        title,
                        Ink::Text,
                        false,
                        Align::Left,
                        true});
  const QRectF plot(rect.x() + gutter, rect.y() + line + 6, rect.width() - gutter - 8,
                    rect.height() - 2 * line - 12);
  if (last == chart.points.rend() || plot.width() < 10 || plot.height() < 10) return list;

  double low = last->y(), high = last->y();
  for (const QPointF& p : chart.points) {
    if (!finite(p)) continue;
    low = std::min(low, p.y());
    high = std::max(high, p.y());
  }
  if (chart.from_zero) low = std::min(low, 0.0);
  if (high - low < 1e-12 * std::max(std::abs(high), 1.0)) {
    high += std::max(std::abs(high) * 0.5, 0.5);
    low -= chart.from_zero ? 0 : std::max(std::abs(low) * 0.5, 0.5);
  }
  const double step = nice((high - low) * kLeastTick / plot.height());
  low = std::floor(low / step) * step;
  high = std::ceil(high / step) * step;
  const double first_x = chart.points.front().x();
  const double last_x = std::max(chart.points.back().x(), first_x + 1);
  const auto x_of = [&](double x) {
    return plot.x() + (x - first_x) / (last_x - first_x) * plot.width();
  };
  const auto y_of = [&](double y) {
    return plot.bottom() - (y - low) / (high - low) * plot.height();
  };
  const int ticks = static_cast<int>(std::lround((high - low) / step));
  for (int i = 0; i <= ticks; ++i) {
    const double value = low + i * step;
    const double y = y_of(value);
    list.line({plot.left(), y}, {plot.right(), y}, Ink::Grid);
    list.text({rect.x(), y - line / 2, gutter - 4, line},
              number(std::abs(value) < step * 1e-6 ? 0 : value), Ink::Faint, Align::Right);
  }
  const QRectF below(plot.left(), plot.bottom() + 2, plot.width(), line);
  list.text(below, "step " + number(first_x), Ink::Faint, Align::Left);
  list.text(below, number(chart.points.back().x()), Ink::Faint, Align::Right);

  // For each pixel the first, lowest, highest and last point are drawn. A hole ends the line.
  Polyline curve;
  curve.ink = chart.ink;
  curve.width = 1.5F;
  const auto end_curve = [&] {
    if (curve.points.size() == 1) curve.points.push_back(curve.points.front() + QPointF(1, 0));
    if (!curve.points.empty()) list.polylines.push_back(curve);
    curve.points.clear();
  };
  for (std::size_t i = 0; i < chart.points.size();) {
    if (!finite(chart.points[i])) {
      end_curve();
      ++i;
      continue;
    }
    const double pixel = std::floor(x_of(chart.points[i].x()));
    std::size_t lowest = i, highest = i, j = i;
    for (; j < chart.points.size() && finite(chart.points[j]) &&
           std::floor(x_of(chart.points[j].x())) == pixel;
         ++j) {
      if (chart.points[j].y() < chart.points[lowest].y()) lowest = j;
      if (chart.points[j].y() > chart.points[highest].y()) highest = j;
    }
    std::vector<std::size_t> kept = {i, lowest, highest, j - 1};
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (std::size_t k : kept) {
      curve.points.emplace_back(x_of(chart.points[k].x()), y_of(chart.points[k].y()));
    }
    i = j;
  }
  end_curve();
  return list;
}

}  // namespace lockstep::gui
