#include "gui/draw/comparison_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"
#include "gui/draw/breakdown_drawing.hpp"
#include "gui/draw/timeline_drawing.hpp"

namespace lockstep::gui {
namespace {

constexpr double kLeastRowHeight = 4, kMostRowHeight = 24;
constexpr double kBetween = 8;  // pixels between the two steps

PartStyle style_of_step_part(StepCause part) {
  if (const auto cause = cause_of(part); cause && part != StepCause::Imbalance) {
    return {Ink::Idle, hatch_of(*cause)};
  }
  switch (part) {
    case StepCause::Recompute:
      return {ink_of(Look::Recompute), Hatch::None};
    case StepCause::Imbalance:
      return {ink_of(Look::Copy), Hatch::None};
    default:
      return {ink_of(Look::Forward), Hatch::None};
  }
}

std::vector<Rank> distinct_ranks(const RunView& run) {
  std::vector<Rank> ranks;
  for (const Rank rank : run.trace.same_as.ids()) {
    if (run.trace.same_as[rank] == rank && run.lanes.main_of_rank(rank)) ranks.push_back(rank);
  }
  return ranks;
}

ComparedStep compared(const RunPtr& run, std::size_t step) {
  ComparedStep result;
  if (!run) return result;
  result.run = run.get();
  if (step < run->steps.size()) result.step = &run->steps[step];
  result.ranks = distinct_ranks(*run);
  return result;
}

SimTime length_of(const ComparedStep& c) { return c.step ? c.step->graph.makespan() : SimTime{}; }

/// The boxes and texts of one side.
class SideDrawing {
 public:
  SideDrawing(DisplayList& list, const ComparisonFrame& frame, const ComparedStep& side,
              double width, const TextSize& text)
      : list_(list), frame_(frame), side_(side), width_(width), text_(text) {}

  void draw(const char* letter, const StepCauses& parts, const std::string& words) {
    if (side_.step) draw_rows();
    draw_bar(parts, words);
    list_.fill({0, side_.rows.y(), frame_gutter(), side_.bar.bottom() - side_.rows.y()},
               Ink::Background);
    const double line = text_.line_height;
    list_.texts.push_back(
        {{4, side_.rows.y(), 20, line}, letter, Ink::Text, false, Align::Left, true});
    double next = side_.rows.y();
    for (std::size_t i = 0; i < side_.ranks.size(); ++i) {
      const double y = side_.rows.y() + static_cast<double>(i) * frame_.row_height;
      if (y < next) continue;
      next = y + line;
      const double room = frame_gutter() - 26;
      std::string words = side_.run->trace.rank_labels[side_.ranks[i]];
      if (text_.width_of(words) > room) words.resize(std::min(words.find(" ("), words.size()));
      label({20, y, room, std::max(frame_.row_height, line)}, words);
    }
    label({4, side_.bar.y(), frame_gutter() - 10, side_.bar.height()},
          side_.left_out > 0 ? "all, " + std::to_string(side_.left_out) + " not shown"
                             : std::string("mean"));
    draw_end();
  }

 private:
  double frame_gutter() const { return side_.rows.x(); }
  void label(QRectF rect, const std::string& words) {
    list_.text(rect, text_.elided(words, rect.width()), Ink::Faint);
  }

  void draw_rows() {
    TimeAxis axis = frame_.axis;
    axis.begin += side_.step->graph.begin();
    axis.end += side_.step->graph.begin();
    for (std::size_t i = 0; i < side_.ranks.size(); ++i) {
      const QRectF row(side_.rows.x(), side_.rows.y() + static_cast<double>(i) * frame_.row_height,
                       side_.rows.width(), frame_.row_height - (frame_.row_height > 8 ? 2 : 1));
      draw_lane(list_, *side_.run, *side_.run->lanes.main_of_rank(side_.ranks[i]), axis, row,
                text_);
    }
  }

  void draw_bar(const StepCauses& parts, const std::string& words) {
    Seconds until, whole;
    for (const Seconds part : parts) whole += part;
    const auto x_at = [&](Seconds t) {
      return std::clamp(side_.bar.x() + frame_.axis.x_of(to_sim_time(t)), side_.bar.left(),
                        side_.bar.right());
    };
    for (const StepCause part : StepCauses::ids()) {
      const double left = x_at(until);
      until += parts[part];
      const QRectF box(left, side_.bar.y(), x_at(until) - left, side_.bar.height());
      if (box.width() <= 0) continue;
      const PartStyle style = style_of_step_part(part);
      list_.fill(box, style.ink, style.hatch);
      const std::string share = percent_text(parts[part].v / whole.v);
      const double room = text_.width_of(share) + 6;
      if (room + 4 > box.width()) continue;
      const Ink under = style.ink == Ink::Idle ? Ink::Background : style.ink;
      if (style.hatch != Hatch::None) {  // a plate, because words on a pattern are hard to read
        list_.fill({box.center().x() - room / 2, box.y() + 1, room, box.height() - 2}, under);
      }
      list_.texts.push_back({box, share, under, true, Align::Center});
    }
    list_.text(
        {side_.bar.right() + 6, side_.bar.y(), width_ - side_.bar.right() - 8, side_.bar.height()},
        words);
  }

  void draw_end() {
    const SimTime end = length_of(side_);
    if (!side_.step || end < frame_.axis.begin || end > frame_.axis.end) return;
    const double x = side_.rows.x() + frame_.axis.x_of(end);
    list_.line({x, side_.rows.y() - 2}, {x, side_.bar.bottom() + 2}, Ink::Accent, 2);
  }

  DisplayList& list_;
  const ComparisonFrame& frame_;
  const ComparedStep& side_;
  const double width_;
  const TextSize& text_;
};

/// The legend in one or more lines; returns where it ends.
double draw_part_legend(DisplayList& list, const ComparisonModel& model, QRectF rect,
                        const TextSize& text) {
  double x = rect.x(), y = rect.y();
  for (const StepCause part : StepCauses::ids()) {
    if (model.parts_a[part].v == 0 && model.parts_b[part].v == 0) continue;
    const std::string name(to_string(part));
    const double width = 20 + text.width_of(name) + 12;
    if (x + width > rect.right() && x > rect.x()) {
      x = rect.x();
      y += text.line_height;
    }
    const PartStyle style = style_of_step_part(part);
    list.fill({x, y + 3, 16, text.line_height - 6}, style.ink, style.hatch);
    list.text({x + 20, y, width - 20, text.line_height}, name);
    x += width;
  }
  return y + text.line_height;
}

}  // namespace

ComparisonFrame ComparisonFrame::fitting(const ComparisonModel& model,
                                         const ComparisonWindow& window, QSizeF size,
                                         const TextSize& text) {
  ComparisonFrame frame;
  frame.a = compared(model.a, window.step);
  frame.b = compared(model.b, window.step);
  const double line = text.line_height, bar = line + 2;
  const double gutter = std::min(text.width_of("A rank 000 (pp0)") + 8, size.width() / 4);
  const double right = std::min(text.width_of("1000.0 ms, +100.0 %") + 12, size.width() / 3);
  const double width = std::max(size.width() - gutter - right, 10.0);
  const SimTime whole =
      std::max({length_of(frame.a), length_of(frame.b),
                to_sim_time(std::max(model.step_a, model.step_b)), TimeAxis::kShortest});
  frame.axis = window.end > window.begin ? TimeAxis{window.begin, window.end, width}
                                         : TimeAxis{SimTime{}, whole, width};
  DisplayList legend;
  const double legend_height = draw_part_legend(legend, model, {gutter, 0, width + right, 0}, text);
  const double fixed = line + 6 + 2 * (bar + 4) + kBetween + legend_height + 6;
  const double room = std::max(size.height() - fixed, 0.0);
  const std::size_t most = static_cast<std::size_t>(room / 2 / kLeastRowHeight);
  for (ComparedStep* side : {&frame.a, &frame.b}) {
    const std::size_t all = side->ranks.size();
    side->ranks.resize(std::min(all, most));
    side->left_out = all - side->ranks.size();
  }
  const auto rows = static_cast<double>(frame.a.ranks.size() + frame.b.ranks.size());
  frame.row_height = std::min(kMostRowHeight, rows > 0 ? std::floor(room / rows) : 0);
  double y = line + 6;
  for (ComparedStep* side : {&frame.a, &frame.b}) {
    const double height = frame.row_height * static_cast<double>(side->ranks.size());
    side->rows = {gutter, y, width, height};
    side->bar = {gutter, y + height + 2, width, bar};
    y = side->bar.bottom() + kBetween;
  }
  frame.legend = y - 2;
  return frame;
}

DisplayList draw_comparison(const ComparisonModel& model, const ComparisonWindow& window,
                            QSizeF size, const TextSize& text) {
  const ComparisonFrame frame = ComparisonFrame::fitting(model, window, size, text);
  const TimeAxis& axis = frame.axis;
  const QRectF& rows = frame.a.rows;
  DisplayList list;
  list.fill({0, 0, size.width(), size.height()}, Ink::Background);
  const SimTime step = nice_step(axis.span_of(std::max(text.width_of("1000.0 ms") + 16, 70.0)));
  const std::int64_t first = (axis.begin.count() + step.count() - 1) / step.count();
  for (SimTime t = first * step; t <= axis.end; t += step) {
    const double x = rows.x() + axis.x_of(t);
    list.fill({x, 0, 1, frame.b.bar.bottom()}, Ink::Grid);  // under the rows
    if (x + 3 + text.width_of("1000.0 ms") > size.width()) break;
    list.text({x + 3, 0, text.width_of("1000.0 ms") + 10, text.line_height}, tick_text(t, step),
              Ink::Faint);
  }
  SideDrawing(list, frame, frame.a, size.width(), text)
      .draw("A", model.parts_a, time_text(model.step_a));
  SideDrawing(list, frame, frame.b, size.width(), text)
      .draw("B", model.parts_b,
            time_text(model.step_b) + ", " + change_text(model.step_a.v, model.step_b.v));
  draw_part_legend(list, model, {rows.x(), frame.legend, size.width() - rows.x(), 0}, text);
  return list;
}

std::optional<ComparedSpan> span_at(const ComparisonFrame& frame, QPointF point) {
  for (const ComparedStep* side : {&frame.a, &frame.b}) {
    if (!side->step || !side->rows.contains(point) || frame.row_height <= 0) continue;
    const auto row = static_cast<std::size_t>((point.y() - side->rows.y()) / frame.row_height);
    if (row >= side->ranks.size()) continue;
    const SimTime time = side->step->graph.begin() + frame.axis.time_at(point.x() - side->rows.x());
    const Lane* lane = side->run->lanes.main_of_rank(side->ranks[row]);
    for (const LaneSegment& segment : lane->segments) {
      const std::size_t i = segment.first_ending_after(time);
      if (i >= segment.spans().size() || segment.spans()[i].begin > time) continue;
      return ComparedSpan{side == &frame.b, segment.spans().first() + i};
    }
  }
  return std::nullopt;
}

}  // namespace lockstep::gui
