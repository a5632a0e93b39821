#include "gui/draw/timeline_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep::gui {
namespace {

constexpr double kLayerLetters = 6;  // room of a layer that is drawn alone, in letters
constexpr double kRulerTick = 110;   // at least so many pixels are between labelled ticks

/// Where times lie in a row, and which lengths are too narrow to be drawn alone.
class Scale {
 public:
  Scale(const TimeAxis& axis, const QRectF& row) : axis_(axis), row_(row) {
    // The cells in which spans are folded lie on a grid of absolute time, so that the picture does
    // not flicker while it is panned.
    cell_ =
        std::max<std::int64_t>(1, static_cast<std::int64_t>(kFoldBelow / axis.pixels_per_tick()));
  }
  bool is_wide(SimTime length) const { return length.count() >= cell_; }
  /// Whether nobody sees a gap of that length.
  bool is_hidden(SimTime gap) const { return 4 * gap.count() < cell_; }
  /// Whether several spans, in a time of this length, have no room for labels of their own.
  bool is_crowded(SimTime length, std::size_t spans, double room) const {
    return static_cast<double>(length.count()) * kFoldBelow <
           static_cast<double>(cell_) * room * static_cast<double>(spans);
  }
  /// Where the cell of `t` ends, or the window if that ends first.
  SimTime cell_end(SimTime t) const {
    const std::int64_t ticks = t.count();
    const std::int64_t cell = ticks >= 0 ? ticks / cell_ : (ticks - cell_ + 1) / cell_;
    return std::min(SimTime{(cell + 1) * cell_}, axis_.end);
  }
  /// The box of an interval. It is cut off a little outside the row, so that coordinates stay
  /// small.
  QRectF box(SimTime begin, SimTime end) const {
    const double x0 = std::max(row_.x() + axis_.x_of(begin), row_.left() - 4);
    const double x1 = std::min(row_.x() + axis_.x_of(end), row_.right() + 4);
    return {x0, row_.y(), std::max(x1 - x0, 0.0), row_.height()};
  }

 private:
  const TimeAxis& axis_;
  const QRectF& row_;
  std::int64_t cell_ = 1;
};

/// The part of a step in which one rank has no other step.
struct StepPart {
  SimTime begin{}, end{};
};

/// Draws the idle stretches of one rank in one step, as far as they lie `within` its time for that
/// step: the wide ones with the pattern of their cause and, where it fits, its name.
class BubbleDrawing {
 public:
  BubbleDrawing(DisplayList& list, const StepAnalysis& step, Rank rank, StepPart within,
                const Scale& scale, const QRectF& row, const TextSize& text)
      : list_(list), within_(within), scale_(scale), row_(row), text_(text) {
    const auto& all = step.bubbles.list;
    first_ = std::partition_point(all.begin(), all.end(), [&](auto& b) { return b.rank < rank; });
    last_ = std::partition_point(first_, all.end(), [&](auto& b) { return b.rank == rank; });
    // This lies below everything, and shows between narrow spans.
    list.fill(scale.box(within.begin, within.end).intersected(row), Ink::Idle, Hatch::Rising);
  }

  /// Draws the bubbles in [begin, end), where nothing computes.
  void draw(SimTime begin, SimTime end) {
    if (!scale_.is_wide(end - begin)) return;
    auto b = std::partition_point(first_, last_, [&](auto& bubble) { return bubble.end <= begin; });
    for (; b != last_ && b->begin < end; ++b) {
      if (scale_.is_wide(b->length())) draw(*b);
    }
  }

 private:
  void draw(const Bubble& bubble) {
    const QRectF box =
        scale_.box(std::max(bubble.begin, within_.begin), std::min(bubble.end, within_.end))
            .intersected(row_);
    list_.fill(box, Ink::Background);
    list_.fill(box, Ink::Idle, hatch_of(bubble.cause));
    const std::string words(to_string(bubble.cause));
    const double width = text_.width_of(words) + 6;
    if (width + 8 >= box.width() || box.height() < text_.line_height - 3) return;
    const QRectF plate(box.center().x() - width / 2, box.y(), width, box.height());
    list_.fill(plate, Ink::Background);
    list_.text(plate, words, Ink::Faint, Align::Center);
  }

  DisplayList& list_;
  const StepPart within_;
  const Scale& scale_;
  const QRectF& row_;
  const TextSize& text_;
  std::vector<Bubble>::const_iterator first_, last_;  // the bubbles of the rank
};

/// Draws the spans of one lane, folding what is too narrow.
class LaneDrawing {
 public:
  LaneDrawing(DisplayList& list, const RunView& run, const TimeAxis& axis, const QRectF& row,
              const TextSize& text)
      : list_(list), run_(run), axis_(axis), row_(row), text_(text), scale_(axis, row_) {}

  void draw(const LaneSegment& segment) {
    draw_spans(segment, [](SimTime, SimTime) {});
  }

  /// Draws the spans, and the bubbles between them `within` the rank's time for the step.
  void draw(const LaneSegment& segment, const StepAnalysis& step, StepPart within) {
    BubbleDrawing bubbles(list_, step, segment.spans().front().rank, within, scale_, row_, text_);
    SimTime idle_since = std::max(within.begin, axis_.begin);
    draw_spans(segment, [&](SimTime begin, SimTime end) {
      bubbles.draw(idle_since, begin);
      idle_since = end;
    });
    bubbles.draw(idle_since, std::min(within.end, axis_.end));
  }

 private:
  /// Calls before(begin, end) for every box, before it is drawn.
  template <class Before>
  void draw_spans(const LaneSegment& segment, Before before) {
    const auto spans = segment.spans();
    std::size_t guess = 1;
    for (std::size_t i = segment.first_ending_after(axis_.begin);
         i < spans.size() && spans[i].begin < axis_.end;) {
      if (scale_.is_wide(spans[i].end - spans[i].begin)) {
        const std::size_t end = end_of_whole(spans, i);
        before(spans[i].begin, spans[end - 1].end);
        if (end - i > 1) {
          draw_whole(spans.subspan(i, end - i));
        } else {
          draw_span(spans[i]);
        }
        i = end;
        continue;
      }
      // A wide span that begins in the cell reaches beyond it, so it can only be the last one.
      std::size_t j = segment.first_beginning_at(scale_.cell_end(spans[i].begin), i + 1, guess - 1);
      guess = j - i;
      if (scale_.is_wide(spans[j - 1].end - spans[j - 1].begin)) --j;
      before(spans[i].begin, spans[j - 1].end);
      draw_folded(segment, i, j);
      i = j;
    }
    end_block();
  }

  /// Where the box ends that begins with span `from`: behind all spans of one microbatch and phase
  /// that follow each other, if these have no room for labels of their own; otherwise behind it.
  std::size_t end_of_whole(const SpanRange& spans, std::size_t from) const {
    const TraceOp& op = run_.lanes.op(spans[from]);
    if (op.microbatch < 0 || run_.lanes.look(spans[from]) >= Look::AllReduce) return from + 1;
    std::size_t to = from + 1;
    for (; to < spans.size() && spans[to].begin < axis_.end; ++to) {
      const bool follows = scale_.is_hidden(spans[to].active - spans[to - 1].end) &&
                           scale_.is_wide(spans[to].end - spans[to].begin) &&
                           same_block(op, run_.lanes.op(spans[to]));
      if (!follows) break;
    }
    const SimTime length = spans[to - 1].end - spans[from].begin;
    const bool crowded = scale_.is_crowded(length, to - from, kLayerLetters * text_.char_width);
    return crowded && spans[from].active == spans[from].begin ? to : from + 1;
  }

  /// Draws spans of one microbatch and phase as one box.
  void draw_whole(const SpanRange& spans) {
    const TraceOp& op = run_.lanes.op(spans.front());
    const Look look = run_.lanes.look(spans.front());
    const QRectF rect = scale_.box(spans.front().begin, spans.back().end);
    const double gap = rect.width() >= 4 ? 1 : 0;
    list_.fill({rect.x(), rect.y(), rect.width() - gap, rect.height()}, ink_of(look), Hatch::None,
               static_cast<std::uint32_t>(spans.size()));
    extend_block(op, look, rect, spans.size());
    for (const Span& span : spans) take_layer(run_.lanes.op(span).layer);
    if (block_.version < 0) block_.version = run_.weights_of(spans.front()).updates;
  }

  void take_layer(int layer) {
    if (layer < 0) return;
    if (block_.first_layer < 0) block_.first_layer = layer;
    block_.last_layer = layer;
  }

  /// Neighbouring spans of one microbatch and phase. They have one label, or one label each where
  /// there is room.
  struct Block {
    std::optional<TraceOp> op;
    int version = -1;  // of the weights that it reads, if weights change within a step
    Look look = Look::Forward;
    double left = 0, right = 0;
    std::size_t spans = 0;
    int first_layer = -1, last_layer = -1;       // of spans that are drawn as one box
    std::vector<std::pair<QRectF, int>> layers;  // spans that are drawn alone, with their layers
  };

  bool has_text_height() const { return row_.height() >= text_.line_height - 3; }

  void draw_span(const Span& span) {
    const TraceOp& op = run_.lanes.op(span);
    const Look look = run_.lanes.look(span);
    const Ink ink = ink_of(look);
    if (span.active > span.begin) {  // while a span waits for a peer, it is a line and not a box
      QRectF thread = scale_.box(span.begin, span.active);
      thread.setTop(row_.center().y() - 1);
      thread.setHeight(2);
      list_.fill(thread, ink);
    }
    const QRectF rect = scale_.box(span.active, span.end);
    // A box is one pixel short, so that neighbours of one colour are two boxes.
    const double gap = rect.width() >= 4 ? 1 : 0;
    list_.fill({rect.x(), rect.y(), rect.width() - gap, rect.height()}, ink, hatch_of(look), 1);
    extend_block(op, look, rect, 1);
    if (block_.version < 0) block_.version = run_.weights_of(span).updates;
    if (has_text_height() && rect.width() > 4 * text_.char_width) {
      block_.layers.emplace_back(rect.intersected(row_), op.layer);
    }
  }

  void draw_folded(const LaneSegment& segment, std::size_t from, std::size_t to) {
    const auto spans = segment.spans();
    const LookMix mix = segment.mix(from, to);
    const Look look = mix.most;
    const QRectF rect = scale_.box(spans[from].begin, spans[to - 1].end);
    list_.fill(rect, ink_of(look), Hatch::None, static_cast<std::uint32_t>(to - from));
    list_.fills.back().blend = {ink_of(mix.second), part(mix.share_of_second), part(1 - mix.busy)};
    const TraceOp first = run_.lanes.op(spans[from]), last = run_.lanes.op(spans[to - 1]);
    if (same_block(first, last)) {
      extend_block(first, look, rect, to - from);
      if (block_.version < 0) block_.version = run_.weights_of(spans[from]).updates;
    } else {
      end_block();
    }
  }

  static std::uint8_t part(double share) {
    return static_cast<std::uint8_t>(std::lround(255 * std::clamp(share, 0.0, 1.0)));
  }

  static bool same_block(const TraceOp& a, const TraceOp& b) {
    return a.kind == b.kind && a.microbatch == b.microbatch && a.stage == b.stage &&
           (a.microbatch >= 0 || a.name == b.name);
  }

  void extend_block(const TraceOp& op, Look look, const QRectF& rect, std::size_t spans) {
    if (!block_.op || !same_block(*block_.op, op) || rect.left() > block_.right + 2) {
      end_block();
      block_.op = op;
      block_.look = look;
      block_.left = rect.left();
    }
    block_.right = rect.right();
    block_.spans += spans;
  }

  void end_block() {
    if (block_.op && has_text_height()) label_block();
    block_ = {};
  }

  void label_block() {
    const Ink ink = ink_of(block_.look);
    std::string words = label(*block_.op, block_.look);
    bool labelled = false;
    for (const auto& [rect, layer] : block_.layers) {
      if (block_.spans == 1 || layer < 0 || block_.look >= Look::AllReduce) continue;
      const std::string of_layer = words + " L" + std::to_string(layer);
      if (text_.width_of(of_layer) + 2 > rect.width()) continue;
      list_.texts.push_back({rect, of_layer, ink, true, Align::Center});
      labelled = true;
    }
    const double left = std::max(block_.left, row_.left());
    const double width = std::min(block_.right, row_.right()) - left;
    // A span that has neither microbatch nor layer shows its name, if that fits.
    const std::string& name = run_.trace.names[block_.op->name];
    const bool anonymous = block_.op->microbatch < 0 && block_.op->layer < 0;
    if (anonymous && text_.width_of(name) + 2 <= width) words = name;
    if (block_.version >= 0) {
      const std::string version = words + " v" + std::to_string(block_.version);
      if (text_.width_of(version) + 2 <= width) words = version;
    }
    if (block_.first_layer >= 0 && block_.first_layer != block_.last_layer) {
      const std::string layers = words + " · L" + std::to_string(block_.first_layer) + "–" +
                                 std::to_string(block_.last_layer);
      if (text_.width_of(layers) + 8 <= width) words = layers;
    }
    const double needed = text_.width_of(words) + 2;
    if (labelled || needed > width) return;
    const QRectF rect(left, row_.y(), width, row_.height());
    if (block_.spans > 1) {  // on a plate, so that edges between spans do not cross the letters
      list_.fill({rect.center().x() - needed / 2, rect.y(), needed, rect.height()}, ink);
    }
    list_.texts.push_back({rect, words, ink, true, Align::Center});
  }

  DisplayList& list_;
  const RunView& run_;
  const TimeAxis& axis_;
  const QRectF row_;
  const TextSize& text_;
  const Scale scale_;
  Block block_;
};

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
        draw_lane(list_, run_, *row.lane, frame_.axis, lane, text_);
      }
    }
    if (whole) draw_label(row, all);
  }

  void draw_label(const Row& row, const QRectF& all) {
    // The area left of the axis belongs to the label.
    list_.fill({0, all.y(), frame_.gutter - 1, all.height() - 1},
               row.kind == Row::Kind::Group ? Ink::Band : Ink::Background);
    const double indent = row.kind == Row::Kind::Stream ? 30
                          : row.kind == Row::Kind::Rank ? 18
                                                        : 16;
    if (row.foldable) {
      list_.text({4, all.y(), 12, all.height()}, row.folded ? "▸" : "▾", Ink::Faint);
    }
    Text text{{indent, all.y(), frame_.gutter - indent - 4, all.height()}, {}};
    text.text = text_.elided(row.label, text.rect.width());
    text.ink = row.kind == Row::Kind::Stream ? Ink::Faint : Ink::Text;
    text.bold = row.kind == Row::Kind::Group;
    list_.texts.push_back(std::move(text));
  }

  void draw_ruler() {
    list_.fill({0, 0, frame_.size.width(), frame_.ruler}, Ink::Band);
    list_.line({0, frame_.ruler - 0.5}, {frame_.size.width(), frame_.ruler - 0.5}, Ink::Faint);
    for (const RulerTick& tick : ruler_ticks(run_, frame_, text_)) {
      list_.line({tick.x, frame_.ruler - 6}, {tick.x, frame_.ruler}, Ink::Faint);
      list_.text(tick.label, tick.words, Ink::Faint);
    }
  }

  const RunView& run_;
  const TimelineLayout& layout_;
  const TimelineFrame& frame_;
  const TextSize& text_;
  DisplayList list_;
};

}  // namespace

Hatch hatch_of(BubbleCause cause) {
  switch (cause) {
    case BubbleCause::WarmUp:
      return Hatch::Rising;
    case BubbleCause::Peer:
      return Hatch::Falling;
    case BubbleCause::Communication:
      return Hatch::Cross;
    case BubbleCause::CoolDown:
      return Hatch::Upright;
    case BubbleCause::Data:
      return Hatch::Level;
    case BubbleCause::Other:
      return Hatch::Dots;
  }
  return Hatch::None;
}

std::vector<RulerTick> ruler_ticks(const RunView& run, const TimelineFrame& frame,
                                   const TextSize& text) {
  std::vector<RulerTick> ticks;
  const SimTime step = nice_step(frame.axis.span_of(kRulerTick) + SimTime{1});
  const SimTime zero = run.lanes.begin();
  for (std::int64_t n = (frame.axis.begin - zero).count() / step.count() - 1;; ++n) {
    const SimTime t = zero + n * step;
    if (t >= frame.axis.end) return ticks;
    const double x = std::round(frame.x_of(t)) + 0.5;
    if (x < frame.gutter) continue;
    std::string words = tick_text(n * step, step);
    const double width = text.width_of(words);
    const bool fits = x + 3 + width <= frame.gutter + frame.axis.width;
    if (!fits) words.clear();
    ticks.push_back({x, {x + 3, 0, width + 2, frame.ruler - 2}, std::move(words)});
  }
}

void draw_lane(DisplayList& list, const RunView& run, const Lane& lane, const TimeAxis& axis,
               const QRectF& row, const TextSize& text) {
  LaneDrawing drawing(list, run, axis, row, text);
  const bool main = run.lanes.main_of_rank(lane.rank) == &lane;
  for (std::size_t i = 0; i < lane.segments.size(); ++i) {
    const LaneSegment& segment = lane.segments[i];
    const StepAnalysis* step = main ? run.step_of(segment.spans().first()) : nullptr;
    // A step ends with its slowest rank, and this one may be in the next step before that: each of
    // its segments has the time until the next one begins.
    StepPart within{segment.begin(), segment.end()};
    if (step) {
      within = {step->graph.begin(), step->graph.end()};
      if (i > 0) within.begin = std::max(within.begin, lane.segments[i - 1].end());
      if (i + 1 < lane.segments.size()) {
        within.end = std::min(within.end, lane.segments[i + 1].begin());
      }
    }
    const SimTime begin = std::min(within.begin, segment.begin());
    const SimTime end = std::max(within.end, segment.end());
    if (end <= axis.begin || begin >= axis.end) continue;
    if (step) {
      drawing.draw(segment, *step, within);
    } else {
      drawing.draw(segment);
    }
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

std::optional<std::size_t> span_at(const TimelineLayout& layout, const TimelineFrame& frame,
                                   QPointF point) {
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
      found = spans.first() + i;
    }
  }
  return found;
}

}  // namespace lockstep::gui
