#include "gui/draw/layouts_drawing.hpp"

#include <algorithm>
#include <cmath>

#include "core/format/format.hpp"
#include "core/plan/explain.hpp"

namespace lockstep::gui {
namespace {

constexpr double kSlowest = 1.3;  // of the best's time: what is slower is not drawn
constexpr double kFarAbove = 4;   // times what any needs: a capacity that would flatten the points
constexpr double kNear = 8;       // pixels from which a point can be hit
constexpr double kLegendPart = 0.42;
constexpr double kLeastPlot = 220;  // pixels

constexpr Look kFamilies[] = {Look::Forward,   Look::Backward,     Look::Optimizer,
                              Look::AllReduce, Look::Recompute,    Look::BackwardWeight,
                              Look::Copy,      Look::BackwardInput};

double bytes_of(const JudgedLayout& layout) { return static_cast<double>(layout.needed.v); }

/// A round number of at least this size, for ticks.
double round_tick(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (factor * power >= least) return factor * power;
  }
  return 10 * power;
}

void draw_axes(DisplayList& list, const LayoutsFrame& f, const TextSize& text) {
  const double line = text.line_height;
  const double range = f.top - f.bottom;
  double unit = 1e3;  // the largest of which the range has one: ticks are round numbers of it
  while (unit < 1e9 && range >= 1e3 * unit) unit *= 1e3;
  const double tick = unit * round_tick(std::max(range / unit / 4, 1e-3));
  for (double bytes = std::ceil(f.bottom / tick) * tick; bytes <= f.top; bytes += tick) {
    const double y = f.plot.bottom() - f.plot.height() * (bytes - f.bottom) / range;
    list.line({f.plot.left(), y}, {f.plot.right(), y}, Ink::Grid);
    list.text({f.plot.left() - 80, y - line / 2, 76, line},
              bytes_text(Bytes{static_cast<std::int64_t>(bytes)}), Ink::Faint, Align::Right);
  }
  const double seconds = round_tick((f.to - f.from) / std::max(2.0, f.plot.width() / 90));
  for (double t = std::ceil(f.from / seconds) * seconds; t <= f.to; t += seconds) {
    const double x = f.plot.left() + f.plot.width() * (t - f.from) / (f.to - f.from);
    list.line({x, f.plot.top()}, {x, f.plot.bottom()}, Ink::Grid);
    list.text({x - 40, f.plot.bottom() + 2, 80, line}, time_text({t}), Ink::Faint, Align::Center);
  }
}

void draw_front(DisplayList& list, const std::vector<LayoutRow>& rows, const LayoutsFrame& f) {
  std::vector<const LayoutRow*> front;
  for (const LayoutRow& row : rows) {
    if (row.front && row.layout->step_time.v <= f.to) front.push_back(&row);
  }
  std::stable_sort(front.begin(), front.end(), [](const LayoutRow* a, const LayoutRow* b) {
    return a->layout->step_time < b->layout->step_time;
  });
  Polyline steps;
  steps.ink = Ink::Text;
  steps.width = 1.5F;
  for (const LayoutRow* row : front) {
    const QPointF at = f.place(*row->layout);
    if (!steps.points.empty()) steps.points.push_back({at.x(), steps.points.back().y()});
    steps.points.push_back(at);
  }
  if (steps.points.empty()) return;
  steps.points.push_back({f.plot.right(), steps.points.back().y()});
  list.polylines.push_back(std::move(steps));
}

const FamilyInk& family_ink(const LayoutsFrame& frame, const std::string& family) {
  static const FamilyInk other;
  const auto it = std::find_if(frame.families.begin(), frame.families.end(),
                               [&](const FamilyInk& f) { return f.name == family; });
  return it == frame.families.end() ? other : *it;
}

/// Families as lines of text: the ink, the name, and why it lost.
/// Families are compared by what is known of all of them, although the best ones were simulated.
Seconds estimated_time(const JudgedLayout& layout) {
  return layout.estimated ? layout.estimated->estimate.step_time : layout.step_time;
}

void draw_legend(DisplayList& list, const std::vector<LayoutRow>& rows,
                 const std::vector<LostFamily>& lost, Bytes capacity, const LayoutsFrame& f,
                 const TextSize& text) {
  const double line = text.line_height;
  double y = f.legend.top();
  const auto full = [&] { return y + line > f.legend.bottom(); };
  const auto row_text = [&](double x, const std::string& words, Ink ink, bool bold) {
    const double width = f.legend.right() - x;
    list.texts.push_back(
        {{x, y, width, line}, text.elided(words, width), ink, false, Align::Left, bold});
  };
  row_text(f.legend.left(), "Best of each family, estimated", Ink::Faint, false);
  y += line;
  const LayoutRow* best = nullptr;
  for (const LayoutRow& row : rows) {
    if (!row.best_of_family || full()) continue;
    if (!best) best = &row;
    const FamilyInk& ink = family_ink(f, row.layout->family);
    list.fill({f.legend.left(), y + line / 2 - 4, 8, 8}, ink.ink, ink.hatch);
    std::string words = row.layout->family + "  " + time_text(estimated_time(*row.layout));
    if (&row != best) {
      words += ", " + change_text(estimated_time(*best->layout).v, estimated_time(*row.layout).v);
    }
    row_text(f.legend.left() + 14, words, Ink::Text, &row == best);
    y += line;
    if (!row.because.empty() && !full()) {
      row_text(f.legend.left() + 14, row.because, Ink::Faint, false);
      y += line;
    }
  }
  if (!best || !best->layout->estimated) return;
  for (const LostFamily& family : lost) {
    if (full()) break;
    row_text(f.legend.left() + 14,
             family.name + ": " + why_lost(family, *best->layout->estimated, capacity), Ink::Faint,
             false);
    y += line;
  }
}

}  // namespace

QPointF LayoutsFrame::place(const JudgedLayout& layout) const {
  const double x = std::min(1.0, (layout.step_time.v - from) / (to - from));
  const double y = std::min(1.0, (bytes_of(layout) - bottom) / (top - bottom));
  return {plot.left() + plot.width() * x, plot.bottom() - plot.height() * y};
}

int LayoutsFrame::at(QPointF point, const std::vector<LayoutRow>& rows) const {
  int nearest = -1;
  double least = kNear * kNear;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (rows[i].layout->step_time.v > to) continue;
    const QPointF d = place(*rows[i].layout) - point;
    const double distance = QPointF::dotProduct(d, d);
    if (distance > least) continue;
    least = distance;
    nearest = static_cast<int>(i);
  }
  return nearest;
}

LayoutsFrame layouts_frame(const std::vector<LayoutRow>& rows, Bytes capacity, QRectF rect,
                           const TextSize& text) {
  LayoutsFrame f;
  const double line = text.line_height;
  const bool beside = rect.width() * (1 - kLegendPart) >= kLeastPlot + 90;
  const double legend = beside ? rect.width() * kLegendPart : 0;
  f.plot = QRectF(rect.left() + 88, rect.top() + line, rect.width() - legend - 104,
                  rect.height() - 3 * line);
  f.legend = QRectF(rect.right() - legend, rect.top() + 4, legend - 8, rect.height() - 8);
  double best = 0, slowest = 0;
  for (const LayoutRow& row : rows) {
    const double t = row.layout->step_time.v;
    best = best > 0 ? std::min(best, t) : t;
  }
  for (const LayoutRow& row : rows) {
    const double t = row.layout->step_time.v;
    if (t > kSlowest * best && !row.layout->simulated) continue;
    slowest = std::max(slowest, t);
    f.top = std::max(f.top, bytes_of(*row.layout));
    f.bottom = f.bottom > 0 ? std::min(f.bottom, bytes_of(*row.layout)) : bytes_of(*row.layout);
  }
  const double range = std::max(slowest - best, 0.02 * best);
  f.from = std::max(0.0, best - 0.08 * range);
  f.to = best + 1.05 * range;
  const auto most = static_cast<double>(capacity.v);
  f.top = 1.06 * (most <= kFarAbove * f.top ? std::max(f.top, most) : f.top);
  f.bottom *= 0.9;
  for (const LayoutRow& row : rows) {
    if (!row.best_of_family || f.families.size() == std::size(kFamilies)) continue;
    f.families.push_back({row.layout->family, ink_of(kFamilies[f.families.size()])});
  }
  return f;
}

DisplayList draw_layouts(const std::vector<LayoutRow>& rows, const std::vector<LostFamily>& lost,
                         Bytes capacity, const LayoutsFrame& f, const TextSize& text) {
  DisplayList list;
  if (rows.empty() || f.plot.width() < 20 || f.plot.height() < 20) return list;
  const double line = text.line_height;
  draw_axes(list, f, text);
  list.text({f.plot.left(), f.plot.bottom() + line + 2, f.plot.width(), line},
            "time of a step, against memory of the rank that needs most", Ink::Faint,
            Align::Center);
  if (capacity.v > 0) {
    const double part = (static_cast<double>(capacity.v) - f.bottom) / (f.top - f.bottom);
    const double y = f.plot.bottom() - f.plot.height() * std::min(part, 1.0);
    if (part <= 1) list.line({f.plot.left(), y}, {f.plot.right(), y}, Ink::Fault, 1.5F);
    list.text({f.plot.left() + 4, y - line, f.plot.width(), line},
              "capacity " + bytes_text(capacity) + (part > 1 ? ", far above" : ""), Ink::Fault);
  }
  draw_front(list, rows, f);
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {  // the best above the others
    if (row->layout->step_time.v > f.to && !row->open) continue;
    const QPointF at = f.place(*row->layout);
    const double half = row->layout->simulated ? 5 : row->front ? 4 : 2.5;
    const FamilyInk& ink = family_ink(f, row->layout->family);
    const QRectF box(at.x() - half, at.y() - half, 2 * half, 2 * half);
    list.fill(box, ink.ink, ink.hatch);
    if (row->layout->simulated) list.outlines.push_back({box, Ink::Text, 1.5F});
    if (row->open) list.outlines.push_back({box.adjusted(-4, -4, 4, 4), Ink::Accent, 2});
  }
  if (f.legend.width() > 0) draw_legend(list, rows, lost, capacity, f, text);
  return list;
}

}  // namespace lockstep::gui
