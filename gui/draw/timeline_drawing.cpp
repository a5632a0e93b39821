#include "gui/draw/timeline_drawing.hpp"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/ir/program.hpp"

namespace lockstep::gui {
namespace {

constexpr double kRulerTick = 110;  // pixels between labelled ticks, at least
constexpr int kComputeStream = static_cast<int>(Stream::Compute);

/// Draws the spans of one segment, folding what is too narrow.
class LaneDrawing {
 public:
  LaneDrawing(DisplayList& list, const RunView& run, const TimeAxis& axis, const QRectF& row,
              const TextSize& text)
      : list_(list), run_(run), axis_(axis), row_(row), text_(text) {
    // Cells of folding lie on a grid of absolute time whose step is a power of two between one and
    // two pixels: the picture does not shimmer while it is panned.
    const auto pixel = static_cast<std::uint64_t>(
        std::max<std::int64_t>(1, static_cast<std::int64_t>(1 / axis.pixels_per_tick())));
    cell_ = static_cast<std::int64_t>(std::bit_ceil(pixel));
    wide_ = SimTime{
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kFoldBelow / axis.pixels_per_tick()))};
    wide_ = std::max(wide_, SimTime{cell_});
  }

  void draw(const LaneSegment& segment) {
    const auto spans = segment.spans();
    std::size_t guess = 1;
    for (std::size_t i = segment.first_ending_after(axis_.begin);
         i < spans.size() && spans[i].begin < axis_.end;) {
      if (spans[i].end - spans[i].begin >= wide_) {
        draw_span(spans[i]);
        ++i;
        continue;
      }
      // A wide span that begins in the cell also ends it, so it can only be the last one.
      const SimTime until = std::min(cell_end(spans[i].begin), axis_.end);
      std::size_t j = segment.first_beginning_at(until, i + 1, guess - 1);
      guess = j - i;
      if (spans[j - 1].end - spans[j - 1].begin >= wide_) --j;
      draw_folded(segment, i, j);
      i = j;
    }
  }

 private:
  SimTime cell_end(SimTime t) const {
    const std::int64_t ticks = t.count();
    const std::int64_t cell = ticks >= 0 ? ticks / cell_ : (ticks - cell_ + 1) / cell_;
    return SimTime{(cell + 1) * cell_};
  }
  double x_of(SimTime t) const { return row_.x() + axis_.x_of(t); }
  QRectF box(SimTime begin, SimTime end) const {
    const double x0 = std::max(x_of(begin), row_.left() - 4);
    const double x1 = std::min(x_of(end), row_.right() + 4);
    return {x0, row_.y(), std::max(x1 - x0, 0.0), row_.height()};
  }

  void draw_span(const Span& span) {
    const Look look = run_.lanes.look(span);
    const Ink ink = ink_of(look);
    if (span.active > span.begin) {  // waits for a peer: a thread, not yet a box
      QRectF thread = box(span.begin, span.active);
      thread.setTop(row_.center().y() - 1);
      thread.setHeight(2);
      list_.fill(thread, ink);
    }
    const QRectF rect = box(span.active, span.end);
    // One pixel short: neighbours of one colour stay two boxes.
    const double gap = rect.width() >= 4 ? 1 : 0;
    list_.fill({rect.x(), rect.y(), rect.width() - gap, rect.height()}, ink, hatch_of(look), 1);
    if (rect.width() < 2 * text_.char_width || rect.height() < text_.line_height - 3) return;
    const QRectF visible = rect.intersected(row_);
    const std::string words = label(run_.lanes.op(span), look);
    if (text_.width_of(words) + 2 > visible.width()) return;
    list_.texts.push_back({visible, words, ink, true, Align::Center});
  }

  void draw_folded(const LaneSegment& segment, std::size_t from, std::size_t to) {
    const auto spans = segment.spans();
    const Look look = run_.lanes.look(spans[segment.longest(from, to)]);
    const QRectF rect = box(spans[from].begin, spans[to - 1].end);
    list_.fill(rect, ink_of(look), Hatch::None, static_cast<std::uint32_t>(to - from));
  }

  DisplayList& list_;
  const RunView& run_;
  const TimeAxis& axis_;
  const QRectF row_;
  const TextSize& text_;
  std::int64_t cell_ = 1;
  SimTime wide_{1};
};

/// The parts of a computing lane where a step runs: what no span covers there is a bubble.
void draw_idle(DisplayList& list, const RunView& run, const TimeAxis& axis, const QRectF& row) {
  for (const StepWindow& step : run.lanes.steps()) {
    const double x0 = std::max(row.x() + axis.x_of(step.begin), row.left());
    const double x1 = std::min(row.x() + axis.x_of(step.end), row.right());
    if (x0 < x1) list.fill({x0, row.y(), x1 - x0, row.height()}, Ink::Idle, Hatch::Rising);
  }
}

class TimelineDrawing {
 public:
  TimelineDrawing(const RunView& run, const TimelineLayout& layout, const TimelineFrame& frame,
                  const TextSize& text)
      : run_(run), layout_(layout), frame_(frame), text_(text) {}

  DisplayList draw() {
    list_.fill({0, 0, frame_.size.width(), frame_.size.height()}, Ink::Background);
    const double top = frame_.rows_top(layout_);
    for (const Row& row : layout_.rows) {
      const double y = top + row.y - frame_.scroll;
      if (y >= frame_.size.height()) break;
      if (y + row.height > top) draw_row(row, y, std::max(y, top));
    }
    for (const Row& row : layout_.pinned) draw_row(row, frame_.ruler + row.y, frame_.ruler);
    if (!layout_.pinned.empty()) {
      list_.line({0, top}, {frame_.size.width(), top}, Ink::Faint);
    }
    draw_ruler();
    return std::move(list_);
  }

 private:
  void draw_row(const Row& row, double y, double clip_top) {
    const double bottom = y + row.height, top = std::max(y, clip_top);
    const bool whole = top == y;
    const QRectF all(0, top, frame_.size.width(), bottom - top);
    if (row.kind == Row::Kind::Group) list_.fill(all, Ink::Band);
    list_.line({0, bottom - 0.5}, {frame_.size.width(), bottom - 0.5}, Ink::Grid);
    if (row.lane) {
      const double above = row.kind == Row::Kind::Stream ? 1 : 2;
      const double lane_top = std::max(y + above, top);
      const QRectF lane(frame_.gutter, lane_top, frame_.axis.width, bottom - above - 1 - lane_top);
      if (lane.height() > 0) {
        if (row.stream == kComputeStream) draw_idle(list_, run_, frame_.axis, lane);
        draw_lane(list_, run_, *row.lane, frame_.axis, lane, text_);
      }
    }
    if (whole) draw_label(row, all);
  }

  void draw_label(const Row& row, const QRectF& all) {
    // What lies left of the axis belongs to the label.
    list_.fill({0, all.y(), frame_.gutter - 1, all.height() - 1},
               row.kind == Row::Kind::Group ? Ink::Band : Ink::Background);
    const double indent = row.kind == Row::Kind::Stream ? 30
                          : row.kind == Row::Kind::Rank ? 18
                                                        : 16;
    if (row.foldable) {
      list_.text({4, all.y(), 12, all.height()}, row.folded ? "▸" : "▾", Ink::Faint);
    }
    Text text{{indent, all.y(), frame_.gutter - indent - 4, all.height()}, row.label};
    text.ink = row.kind == Row::Kind::Stream ? Ink::Faint : Ink::Text;
    text.bold = row.kind == Row::Kind::Group;
    list_.texts.push_back(std::move(text));
  }

  void draw_ruler() {
    list_.fill({0, 0, frame_.size.width(), frame_.ruler}, Ink::Band);
    list_.line({0, frame_.ruler - 0.5}, {frame_.size.width(), frame_.ruler - 0.5}, Ink::Faint);
    const SimTime step = nice_step(frame_.axis.span_of(kRulerTick) + SimTime{1});
    const SimTime zero = run_.lanes.begin();
    std::int64_t n = (frame_.axis.begin - zero).count() / step.count() - 1;
    for (;; ++n) {
      const SimTime t = zero + n * step;
      const double x = std::round(frame_.x_of(t)) + 0.5;
      if (t >= frame_.axis.end) break;
      if (x < frame_.gutter) continue;
      list_.line({x, frame_.ruler - 6}, {x, frame_.ruler}, Ink::Faint);
      const std::string words = tick_text(n * step, step);
      list_.text({x + 3, 0, kRulerTick, frame_.ruler - 2}, words, Ink::Faint);
    }
  }

  const RunView& run_;
  const TimelineLayout& layout_;
  const TimelineFrame& frame_;
  const TextSize& text_;
  DisplayList list_;
};

}  // namespace

void draw_lane(DisplayList& list, const RunView& run, const Lane& lane, const TimeAxis& axis,
               const QRectF& row, const TextSize& text) {
  LaneDrawing drawing(list, run, axis, row, text);
  for (const LaneSegment& segment : lane.segments) {
    if (segment.end() > axis.begin && segment.begin() < axis.end) drawing.draw(segment);
  }
}

DisplayList draw_timeline(const RunView& run, const TimelineLayout& layout,
                          const TimelineFrame& frame, const TextSize& text) {
  return TimelineDrawing(run, layout, frame, text).draw();
}

std::optional<RowPlace> row_at(const TimelineLayout& layout, const TimelineFrame& frame,
                               QPointF point) {
  const double top = frame.rows_top(layout);
  if (point.y() < frame.ruler || point.y() >= frame.size.height()) return std::nullopt;
  const bool pinned = point.y() < top;
  const double y = pinned ? point.y() - frame.ruler : point.y() - top + frame.scroll;
  const Row* row = row_at(pinned ? layout.pinned : layout.rows, y);
  if (!row) return std::nullopt;
  return RowPlace{row, *place_of(layout, frame, *row)};
}

std::optional<QRectF> place_of(const TimelineLayout& layout, const TimelineFrame& frame,
                               const Row& row) {
  const double top = frame.rows_top(layout);
  const double y = row.pinned ? frame.ruler + row.y : top + row.y - frame.scroll;
  const bool hidden = !row.pinned && (y + row.height <= top || y >= frame.size.height());
  if (hidden) return std::nullopt;
  return QRectF(frame.gutter, y, frame.axis.width, row.height);
}

std::optional<std::size_t> span_at(const RunView& run, const TimelineLayout& layout,
                                   const TimelineFrame& frame, QPointF point) {
  const std::optional<RowPlace> place = row_at(layout, frame, point);
  if (!place || !place->row->lane || point.x() < frame.gutter) return std::nullopt;
  constexpr double kReach = 3;
  const SimTime time = frame.time_at(point.x());
  double nearest = kReach;
  std::optional<std::size_t> found;
  for (const LaneSegment& segment : place->row->lane->segments) {
    const auto spans = segment.spans();
    const std::size_t after = segment.first_ending_after(time);
    for (const std::size_t i : {after - 1, after}) {
      if (i >= spans.size()) continue;
      const double left = frame.x_of(spans[i].begin) - point.x();
      const double right = point.x() - frame.x_of(spans[i].end);
      const double distance = std::max({left, right, 0.0});
      if (distance >= nearest) continue;
      nearest = distance;
      found = static_cast<std::size_t>(&spans[i] - run.trace.spans.data());
    }
  }
  return found;
}

}  // namespace lockstep::gui
