#include "gui/draw/breakdown_drawing.hpp"

#include <algorithm>
#include <cmath>

#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

constexpr std::size_t kFullRows = 64;  // with more rows, rows get thinner
constexpr double kLeastRow = 3;
constexpr double kRight = 8;  // margin

}  // namespace

PartStyle style_of_part(std::size_t part) {
  static constexpr PartStyle kStyles[kNumTimeParts] = {
      {ink_of(Look::Forward), Hatch::None},       // computation
      {ink_of(Look::Optimizer), Hatch::Upright},  // overlapping
      {ink_of(Look::AllReduce), Hatch::Cross},    // communication
      {ink_of(Look::Recv), Hatch::Dots},          // waiting
      {Ink::Idle, Hatch::Rising},                 // other
  };
  return kStyles[part];
}

DisplayList draw_parts_bar(const TimeParts& parts, Seconds whole, QRectF rect,
                           const TextSize& text) {
  DisplayList list;
  if (!(whole.v > 0)) return list;
  const double total = sum(parts).v;
  double x = rect.x();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const double width = parts[i].v / whole.v * rect.width();
    if (width <= 0) continue;
    const QRectF box(x, rect.y(), width, rect.height());
    const PartStyle style = style_of_part(i);
    list.fill(box, style.ink, style.hatch);
    const std::string share = percent_text(parts[i].v / total);
    if (text.width_of(share) + 6 < width && rect.height() >= text.line_height - 2) {
      const double plate = text.width_of(share) + 6;
      const Ink under = style.ink == Ink::Idle ? Ink::Background : style.ink;
      if (style.hatch != Hatch::None) {  // a plate, because words on a pattern are hard to read
        list.fill({box.center().x() - plate / 2, box.y() + 1, plate, box.height() - 2}, under);
      }
      list.texts.push_back({box, share, under, true, Align::Center});
    }
    x += width;
  }
  return list;
}

DisplayList draw_parts_legend(QRectF rect, const TextSize& text) {
  DisplayList list;
  double x = rect.x(), y = rect.y();
  for (std::size_t i = 0; i < kTimePartNames.size(); ++i) {
    const std::string name(kTimePartNames[i]);
    const double width = 18 + text.width_of(name) + 8;
    if (x + width > rect.right() && x > rect.x()) {
      x = rect.x();
      y += text.line_height;
    }
    const PartStyle style = style_of_part(i);
    list.fill({x, y + 3, 14, text.line_height - 6}, style.ink, style.hatch);
    list.text({x + 18, y, width - 18, text.line_height}, name);
    x += width;
  }
  return list;
}

BreakdownFrame BreakdownFrame::fitting(const SummaryModel& model, double width,
                                       const TextSize& text) {
  BreakdownFrame frame;
  frame.width = width;
  frame.line = text.line_height;
  frame.rows = model.rows.size();
  double longest = 0;
  for (int c = 0; c < kNumBubbleCauses; ++c) {
    const std::string cause(to_string(static_cast<BubbleCause>(c)));
    longest = std::max(longest, text.width_of(cause));
  }
  for (const PartsRow& row : model.rows) {
    longest = std::max(longest, text.width_of(label_of(model.report, row.ranks)));
  }
  frame.gutter = std::min(longest + 10, width / 2);
  const double full = text.line_height + 4;
  frame.row_height = frame.rows <= kFullRows
                         ? full
                         : std::max(kLeastRow, std::floor(full * kFullRows / double(frame.rows)));
  const DisplayList legend = draw_parts_legend(frame.legend(), text);
  frame.rows_top = legend.texts.back().rect.bottom() + 4;
  const double rows_end = frame.rows_top + double(frame.rows) * frame.row_height;
  frame.bubbles_top = rows_end + text.line_height + 12;
  frame.height = frame.bubbles_top + kNumBubbleCauses * full + 4;
  return frame;
}

QRectF BreakdownFrame::legend() const {
  return {4, line + 2, width - 8, line};  // below a heading; as many lines as it needs
}

QRectF BreakdownFrame::bar(std::size_t row) const {
  return {gutter, rows_top + double(row) * row_height, std::max(width - gutter - kRight, 1.0),
          row_height - (row_height > 6 ? 2 : 0)};
}

QRectF BreakdownFrame::bubble_bar(int cause) const {
  return {gutter, bubbles_top + cause * (line + 4), std::max(width - gutter - kRight, 1.0),
          line + 2};
}

std::optional<std::size_t> BreakdownFrame::row_at(QPointF point) const {
  const double row = std::floor((point.y() - rows_top) / row_height);
  if (row < 0 || row >= double(rows)) return std::nullopt;
  return static_cast<std::size_t>(row);
}

DisplayList draw_breakdown(const SummaryModel& model, double width, const TextSize& text) {
  const BreakdownFrame frame = BreakdownFrame::fitting(model, width, text);
  const double line = text.line_height;
  DisplayList list;
  list.fill({0, 0, width, frame.height}, Ink::Background);
  const auto heading = [&](double y, std::string words) {
    list.texts.push_back(
        {{4, y, width - 8, line}, std::move(words), Ink::Text, false, Align::Left, true});
  };
  heading(0, "Each rank's step");
  list.append(draw_parts_legend(frame.legend(), text));
  const Seconds longest = model.longest();
  double next_label = 0;
  for (std::size_t row = 0; row < model.rows.size(); ++row) {
    const QRectF bar = frame.bar(row);
    list.append(draw_parts_bar(model.rows[row].parts, longest, bar, text));
    if (bar.y() < next_label) continue;
    list.text({4, bar.center().y() - line / 2, frame.gutter - 8, line},
              text.elided(label_of(model.report, model.rows[row].ranks), frame.gutter - 8));
    next_label = bar.y() + line;
  }

  const Seconds step = model.report.step_time;
  heading(frame.bubbles_top - line - 4, "Nothing computes, because of");
  for (int c = 0; c < kNumBubbleCauses; ++c) {
    const Seconds time = model.report.causes.bubbles[static_cast<BubbleCause>(c)];
    const QRectF whole = frame.bubble_bar(c);
    const std::string cause(to_string(static_cast<BubbleCause>(c)));
    list.text({4, whole.y(), frame.gutter - 8, whole.height()},
              text.elided(cause, frame.gutter - 8));
    const double share = step.v > 0 ? time.v / step.v : 0;
    list.fill({whole.x(), whole.y(), whole.width() * share, whole.height()}, Ink::Idle,
              Hatch::Rising);
    const std::string words = time_text(time) + ", " + percent_text(share);
    const double room = text.width_of(words) + 6, end = whole.x() + whole.width() * share + 4;
    const double x = std::min(end, whole.right() - room);
    if (x < end) list.fill({x - 2, whole.y(), room, whole.height()}, Ink::Background);
    list.text({x, whole.y(), room, whole.height()}, words);
  }
  return list;
}

}  // namespace lockstep::gui
