#include "gui/draw/timeline_overlay.hpp"

#include <algorithm>
#include <cmath>

#include "core/base/index_vector.hpp"
#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

/// Finds the row that shows a stream: its own or, if that is folded away, the one of its rank.
class RowIndex {
 public:
  RowIndex(const RunView& run, const TimelineLayout& layout)
      : streams_(run.trace.streams.size()),
        exact_(run.trace.same_as.size() * streams_, nullptr),
        of_rank_(run.trace.same_as.size(), nullptr) {
    for (const auto* rows : {&layout.rows, &layout.pinned}) {
      for (const Row& row : *rows) {
        if (row.rank < 0 || !row.lane) continue;
        const Rank rank = row.lane->rank;
        const Row*& exact = exact_[to_size(rank) * streams_ + to_size(row.lane->stream)];
        if (!exact) exact = &row;
        if (row.kind != Row::Kind::Stream && !of_rank_[rank]) of_rank_[rank] = &row;
      }
    }
  }
  const Row* find(Rank rank, int stream) const {
    const Row* exact = exact_[to_size(rank) * streams_ + to_size(stream)];
    return exact ? exact : of_rank_[rank];
  }

 private:
  std::size_t streams_;
  std::vector<const Row*> exact_;
  IndexVector<Rank, const Row*> of_rank_;  // indexed by the rank that has the spans
};

std::optional<QRectF> place(const RunView& run, const RowIndex& index, const TimelineLayout& layout,
                            const TimelineFrame& frame, SpanId id) {
  const Span& span = run.trace.spans[id];
  const Row* row = index.find(span.rank, run.lanes.op(span).stream);
  if (!row) return std::nullopt;
  const auto place = place_of(layout, frame, *row);
  if (!place) return std::nullopt;
  const double x0 = frame.x_of(span.active), x1 = frame.x_of(span.end);
  return QRectF(x0, place->y() + 1, std::max(x1 - x0, 1.0), place->height() - 2);
}

class OverlayDrawing {
 public:
  OverlayDrawing(const RunView& run, const TimelineLayout& layout, const TimelineFrame& frame,
                 const TextSize& text, const TimelineOverlay& overlay)
      : run_(run),
        layout_(layout),
        frame_(frame),
        text_(text),
        overlay_(overlay),
        index_(run, layout) {}

  DisplayList draw() {
    if (!overlay_.found.empty()) draw_found();
    if (overlay_.critical_path) draw_path();
    if (overlay_.area_begin && overlay_.area_end) draw_area();
    for (const Link& link : overlay_.links) draw_link(link);
    if (overlay_.span) {
      if (auto where = place(run_, index_, layout_, frame_, *overlay_.span)) {
        outline(*where, Ink::Accent, 2);
      }
    }
    if (overlay_.hover_x) vertical(*overlay_.hover_x, Ink::Faint, 1);
    draw_cursor();
    draw_marks();
    if (overlay_.drop) list_.line({0, *overlay_.drop}, {right(), *overlay_.drop}, Ink::Accent, 3);
    return std::move(list_);
  }

 private:
  double right() const { return frame_.gutter + frame_.axis.width; }
  bool in_sight(double x) const { return x >= frame_.gutter && x <= right(); }
  /// The part of the widget that has the rows. What lies over labels and ruler is cut off.
  QRectF rows() const {
    return {frame_.gutter, frame_.ruler, frame_.axis.width, frame_.size.height() - frame_.ruler};
  }

  void vertical(double x, Ink ink, float width) {
    if (in_sight(x)) list_.line({x, frame_.ruler}, {x, frame_.size.height()}, ink, width);
  }
  void outline(const QRectF& rect, Ink ink, float width) {
    const QRectF seen = rect.adjusted(-1, 0, 1, 0).intersected(rows());
    if (!seen.isEmpty()) list_.outlines.push_back({seen, ink, width});
  }

  /// Draws a plate with words in the ruler, centred on `x` as far as the edges allow. Labels of the
  /// ruler that it would overlap are not shown at all.
  void tag(double x, const std::string& words, Ink ink) {
    const double width = text_.width_of(words) + 10;
    const double left =
        std::clamp(x - width / 2, frame_.gutter, std::max(frame_.gutter, right() - width));
    const QRectF plate(left, 1, width, frame_.ruler - 3);
    for (const RulerTick& tick : ruler_ticks(run_, frame_, text_)) {
      if (tick.label.intersects(plate)) list_.fill(tick.label, Ink::Band);
    }
    list_.fill(plate, ink);
    list_.texts.push_back({plate, words, ink, true, Align::Center});
  }

  void draw_cursor() {
    const double x = frame_.x_of(overlay_.cursor);
    if (!in_sight(x)) return;
    vertical(x, Ink::Accent, 2);
    tag(x, tick_text(overlay_.cursor - run_.lanes.begin(), frame_.axis.span_of(1)), Ink::Accent);
  }

  /// Draws each mark as a numbered flag in the ruler with a line down, or, for a stretch of time,
  /// with a bar along the ruler.
  void draw_marks() {
    for (std::size_t i = 0; i < overlay_.marks.size(); ++i) {
      const TimeRange& range = overlay_.marks[i].range;
      const double x0 = frame_.x_of(range.begin), x1 = frame_.x_of(range.end);
      const QRectF bar =
          QRectF(x0, frame_.ruler - 5, std::max(x1 - x0, 1.0), 4)
              .intersected(QRectF(frame_.gutter, 0, frame_.axis.width, frame_.ruler));
      if (range.end > range.begin && !bar.isEmpty()) list_.fill(bar, Ink::Text);
      if (!in_sight(x0)) continue;
      list_.lines.push_back(
          {{x0, frame_.ruler}, {x0, frame_.size.height()}, Ink::Text, 1, true, false});
      const std::string number = std::to_string(i + 1);
      const QRectF flag(x0, 2, text_.width_of(number) + 8, frame_.ruler - 7);
      list_.fill(flag, Ink::Text);
      list_.texts.push_back({flag, number, Ink::Text, true, Align::Center});
    }
  }

  void draw_found() {
    for (const auto* list : {&layout_.pinned, &layout_.rows}) {
      for (const Row& row : *list) {
        if (row.key != overlay_.found) continue;
        if (const auto place = place_of(layout_, frame_, row)) {
          list_.outlines.push_back(
              {QRectF(0, place->y(), right(), place->height()), Ink::Accent, 2});
        }
      }
    }
  }

  void draw_area() {
    const double x0 = std::max(frame_.x_of(*overlay_.area_begin), frame_.gutter);
    const double x1 = std::min(frame_.x_of(*overlay_.area_end), right());
    if (x0 >= x1) return;
    double top = frame_.ruler, bottom = frame_.size.height();
    if (!overlay_.area_ranks.empty()) {
      double first = bottom, last = top;
      for (const auto* list : {&layout_.pinned, &layout_.rows}) {
        for (const Row& row : *list) {
          if (!std::binary_search(overlay_.area_ranks.begin(), overlay_.area_ranks.end(),
                                  row.rank)) {
            continue;
          }
          if (const auto place = place_of(layout_, frame_, row)) {
            first = std::min(first, place->top());
            last = std::max(last, place->bottom());
          }
        }
      }
      top = std::max(top, first);
      bottom = std::min(bottom, last);
      if (top >= bottom) return;
    }
    list_.fill({x0, top, x1 - x0, bottom - top}, Ink::Wash);
    for (const double x : {x0, x1}) list_.line({x, top}, {x, bottom}, Ink::Accent);
    const SimTime length = *overlay_.area_end - *overlay_.area_begin;
    tag((x0 + x1) / 2, "Δ " + time_text(to_seconds(length)), Ink::Accent);
  }

  void draw_link(const Link& link) {
    const auto from = place(run_, index_, layout_, frame_, link.from);
    const auto to = place(run_, index_, layout_, frame_, link.to);
    if (!from || !to) return;
    const bool together = link.kind == Link::Kind::Collective;
    QPointF a(together ? from->left() : from->right(), from->center().y());
    QPointF b(to->left(), to->center().y());
    // A message leaves where its transfer begins, because both ends run at the same time.
    if (link.kind == Link::Kind::Message) a.setX(from->left());
    const auto cut = [&](QPointF& p) { p.setX(std::clamp(p.x(), frame_.gutter, right())); };
    cut(a);
    cut(b);
    Line line{a, b, together ? Ink::Faint : Ink::Accent, 1.5F};
    line.dashed = together;
    line.arrow = !together;
    list_.lines.push_back(line);
  }

  /// Draws the critical path: a bar under each of its spans, and a line between rows where it goes
  /// to another. Stretches of one row that are narrower than a pixel become one bar.
  void draw_path() {
    std::optional<QRectF> bar;
    const auto flush = [&] {
      if (bar) list_.fill(bar->intersected(rows()), Ink::Fault);
    };
    for (const StepAnalysis& step : run_.steps) {
      for (const PathSegment& segment : step.path) {
        if (segment.kind != PathSegment::Kind::Run || segment.end < frame_.axis.begin ||
            segment.begin > frame_.axis.end) {
          continue;
        }
        const auto where = place(run_, index_, layout_, frame_, step.id(segment.span));
        if (!where) continue;
        const double x0 = frame_.x_of(segment.begin), x1 = frame_.x_of(segment.end);
        const QRectF next(x0, where->bottom() - 4, std::max(x1 - x0, 1.0), 3);
        if (bar && bar->y() == next.y() && next.left() <= bar->right() + 1) {
          bar->setRight(std::max(bar->right(), next.right()));
          continue;
        }
        flush();
        if (bar && bar->y() != next.y() && in_sight(next.left())) {
          list_.line({next.left(), bar->center().y()}, {next.left(), next.center().y()}, Ink::Fault,
                     1.5F);
        }
        bar = next;
      }
    }
    flush();
  }

  const RunView& run_;
  const TimelineLayout& layout_;
  const TimelineFrame& frame_;
  const TextSize& text_;
  const TimelineOverlay& overlay_;
  const RowIndex index_;
  DisplayList list_;
};

}  // namespace

DisplayList draw_overlay(const RunView& run, const TimelineLayout& layout,
                         const TimelineFrame& frame, const TextSize& text,
                         const TimelineOverlay& overlay) {
  return OverlayDrawing(run, layout, frame, text, overlay).draw();
}

std::optional<QRectF> place_of(const RunView& run, const TimelineLayout& layout,
                               const TimelineFrame& frame, SpanId span) {
  return place(run, RowIndex(run, layout), layout, frame, span);
}

std::optional<SimTime> snap(const RunView& run, const TimelineLayout& layout,
                            const TimelineFrame& frame, QPointF point, double reach) {
  std::optional<SimTime> nearest;
  double distance = reach;
  const auto consider = [&](SimTime t) {
    const double d = std::abs(frame.x_of(t) - point.x());
    if (d < distance) {
      distance = d;
      nearest = t;
    }
  };
  consider(run.lanes.begin());
  consider(run.lanes.end());
  const auto place = row_at(layout, frame, point);
  if (!place || !place->row->lane) return nearest;
  const SimTime time = frame.time_at(point.x());
  for (const LaneSegment& segment : place->row->lane->segments) {
    const auto spans = segment.spans();
    const std::size_t at = segment.first_ending_after(time);
    for (std::size_t i = at == 0 ? 0 : at - 1; i < spans.size() && i <= at + 1; ++i) {
      consider(spans[i].begin);
      consider(spans[i].active);
      consider(spans[i].end);
    }
  }
  return nearest;
}

}  // namespace lockstep::gui
