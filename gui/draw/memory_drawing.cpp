#include "gui/draw/memory_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

constexpr double kCapacityNear = 4;  // a capacity above this times the peak is not drawn
constexpr std::size_t kMarkedNext = 3;
constexpr std::size_t kMostBlocks = 20'000;  // that are drawn
constexpr double kScaleStep = 28;  // at least so many pixels are between lines of the scale

std::int64_t largest(const MemoryModel& model) {
  return std::max({model.curve.peak, model.curve.arena, model.process()});
}

/// Draws what the process keeps beside the arena as bands above it, which end at what nvidia-smi
/// shows. A term below zero is memory that the framework does not keep; it lowers the bands.
void draw_terms(DisplayList& list, const MemoryModel& model, const MemoryFrame& frame,
                const TextSize& text) {
  if (model.device.terms.empty()) return;
  std::int64_t below = model.curve.arena;
  for (const MemoryTerm& term : model.device.terms)
    below += std::min<std::int64_t>(term.bytes.v, 0);
  for (std::size_t i = 0; i < model.device.terms.size(); ++i) {
    const MemoryTerm& term = model.device.terms[i];
    if (term.bytes.v <= 0) continue;
    const double bottom = frame.y_of(below), top = frame.y_of(below + term.bytes.v);
    const QRectF band(frame.plot.left(), top, frame.plot.width(), bottom - top);
    list.fill(band, Ink::Band);
    list.fill(band, Ink::Idle, term_hatch(i));
    list.line(band.topLeft(), band.topRight(), Ink::Idle);
    const std::string words = term.name + " " + bytes_text(term.bytes);
    const double width = text.width_of(words) + 8;
    if (band.height() >= text.line_height - 2 && width < band.width()) {
      const QRectF plate(band.left() + 4, band.y() + 1, width, band.height() - 2);
      list.fill(plate, Ink::Band);
      list.text(plate.adjusted(4, 0, 0, 0), words);
    }
    below += term.bytes.v;
  }
  const double y = frame.y_of(model.curve.arena);
  list.line({frame.plot.left(), y}, {frame.plot.right(), y}, Ink::Text);
}

/// Draws in red what lies above the capacity.
void draw_excess(DisplayList& list, const MemoryModel& model, const MemoryFrame& frame) {
  const std::int64_t top = std::max(model.curve.peak, model.process());
  if (model.capacity <= 0 || top <= model.capacity) return;
  const double y = frame.y_of(top);
  list.fill({frame.plot.left(), y, frame.plot.width(), frame.y_of(model.capacity) - y}, Ink::Over);
}

/// For each column of pixels, the sample with the largest total among those that are valid in it.
std::vector<const MemorySample*> columns(const MemoryModel& model, const TimeAxis& axis) {
  const auto& samples = model.curve.samples;
  std::vector<const MemorySample*> out(static_cast<std::size_t>(std::max(axis.width, 0.0)));
  std::size_t next = 0;
  const MemorySample* now = nullptr;
  for (std::size_t x = 0; x < out.size(); ++x) {
    const SimTime until = axis.time_at(static_cast<double>(x) + 1);
    const MemorySample* most = now;
    for (; next < samples.size() && samples[next].time < until; ++next) {
      now = &samples[next];
      if (!most || total_bytes(*now) > total_bytes(*most)) most = now;
    }
    out[x] = axis.time_at(static_cast<double>(x)) < model.end ? most : nullptr;
  }
  return out;
}

/// Calls visit(first, last, sample) for each run of columns that show the same sample.
template <class Visit>
void for_each_run(const std::vector<const MemorySample*>& columns, Visit visit) {
  for (std::size_t i = 0; i < columns.size();) {
    std::size_t j = i + 1;
    while (j < columns.size() && columns[j] == columns[i]) ++j;
    if (columns[i]) visit(i, j, *columns[i]);
    i = j;
  }
}

void draw_capacity(DisplayList& list, const MemoryModel& model, const MemoryFrame& frame,
                   const TextSize& text) {
  if (model.capacity <= 0 || model.capacity > frame.top) return;
  const double y = frame.y_of(model.capacity);
  list.lines.push_back({{frame.plot.left(), y}, {frame.plot.right(), y}, Ink::Fault, 2, true});
  const std::string words = "capacity " + bytes_text(Bytes{model.capacity});
  const double width = text.width_of(words) + 8;
  const QRectF plate(frame.plot.right() - width, y + 2, width, text.line_height);
  list.fill(plate, Ink::Background);
  list.text(plate, words, Ink::Fault, Align::Center);
}

void draw_scale(DisplayList& list, const MemoryFrame& frame, const TextSize& text) {
  // Steps are 1, 2 or 5 times a power of ten, so that labels are short.
  const double least =
      static_cast<double>(frame.top) * kScaleStep / std::max(frame.plot.height(), 1.0);
  double step = 1;
  for (double factor = 1; step < least; factor *= 10) {
    for (double digit : {1.0, 2.0, 5.0}) {
      step = factor * digit;
      if (step >= least) break;
    }
  }
  for (double bytes = 0; bytes <= static_cast<double>(frame.top); bytes += step) {
    const double y = frame.y_of(static_cast<std::int64_t>(bytes));
    list.line({frame.plot.left(), y}, {frame.plot.right(), y}, Ink::Grid);
    list.text({frame.plot.left() - 90, y - text.line_height / 2, 86, text.line_height},
              bytes_text(Bytes{static_cast<std::int64_t>(bytes)}), Ink::Faint, Align::Right);
  }
}

}  // namespace

MemoryFrame memory_frame(const MemoryModel& model, const std::vector<MemoryModel>& others,
                         QRectF rect, const TextSize& text, const SharedAxis& shared) {
  MemoryFrame frame;
  frame.plot = rect.adjusted(92, text.line_height, -8, -4);
  frame.plot.setWidth(std::max(frame.plot.width(), 1.0));
  frame.plot.setHeight(std::max(frame.plot.height(), 1.0));
  std::int64_t top = largest(model);
  for (const MemoryModel& other : others) top = std::max(top, largest(other));
  if (model.capacity > 0 &&
      static_cast<double>(model.capacity) <= kCapacityNear * static_cast<double>(top)) {
    top = std::max(top, model.capacity);
  }
  frame.top = std::max<std::int64_t>(top + top / 12, 1);
  frame.axis = {model.begin, std::max(model.end, model.begin + TimeAxis::kShortest),
                std::floor(frame.plot.width())};
  const bool there = shared.left >= frame.plot.left() && shared.axis.width > 1 &&
                     shared.left + shared.axis.width <= rect.right() &&
                     shared.axis.begin < model.end && shared.axis.end > model.begin;
  if (there) {
    frame.axis = shared.axis;
    frame.axis.width = std::floor(frame.axis.width);
    frame.plot.setLeft(shared.left);
    frame.plot.setWidth(frame.axis.width);
  }
  return frame;
}

DisplayList draw_memory_curve(const MemoryModel& model, const std::vector<MemoryModel>& others,
                              const MemoryFrame& frame, const TextSize& text) {
  DisplayList list;
  draw_scale(list, frame, text);
  for_each_run(columns(model, frame.axis), [&](std::size_t first, std::size_t last,
                                               const MemorySample& sample) {
    std::int64_t below = 0;
    for (std::size_t kind = 0; kind < sample.bytes_by_kind.size(); ++kind) {
      const std::int64_t bytes = sample.bytes_by_kind[kind];
      if (bytes == 0) continue;
      const double bottom = frame.y_of(below), top = frame.y_of(below + bytes);
      list.fill({frame.plot.left() + static_cast<double>(first), top,
                 static_cast<double>(last - first), bottom - top},
                memory_ink(static_cast<int>(kind)), memory_hatch(static_cast<int>(kind)));
      below += bytes;
    }
  });
  draw_terms(list, model, frame, text);
  draw_excess(list, model, frame);
  for (const MemoryModel& other : others) {
    if (other.empty()) continue;
    const SimTime shift = other.begin - model.begin;
    const TimeAxis axis{frame.axis.begin + shift, frame.axis.end + shift, frame.axis.width};
    Polyline total;
    total.width = 1.5F;
    for_each_run(columns(other, axis),
                 [&](std::size_t first, std::size_t last, const MemorySample& sample) {
                   const double y = frame.y_of(total_bytes(sample));
                   total.points.emplace_back(frame.plot.left() + static_cast<double>(first), y);
                   total.points.emplace_back(frame.plot.left() + static_cast<double>(last), y);
                 });
    list.polylines.push_back(std::move(total));
  }
  draw_capacity(list, model, frame, text);
  const double x = frame.plot.left() + frame.axis.x_of(model.curve.peak_time);
  const double y = frame.y_of(model.curve.peak);
  if (x < frame.plot.left() || x > frame.plot.right() + 1) return list;  // out of sight
  list.line({x, y - 6}, {x, y}, Ink::Text, 2);
  const std::string words = "peak " + bytes_text(Bytes{model.curve.peak});
  const double width = text.width_of(words);
  const double left = std::clamp(x - width / 2, frame.plot.left(),
                                 std::max(frame.plot.left(), frame.plot.right() - width));
  list.text({left, y - 6 - text.line_height, width + 4, text.line_height}, words);
  return list;
}

// ---------------------------------------------------------------- blocks

DisplayList draw_blocks(const MemoryModel& model, const MemoryFrame& frame, const TextSize& text) {
  DisplayList list;
  draw_scale(list, frame, text);
  std::vector<const BufferLife*> seen;
  for (const BufferLife& life : model.lives) {
    if (life.from < frame.axis.end && life.until > frame.axis.begin) seen.push_back(&life);
  }
  const std::size_t drawn = std::min(seen.size(), kMostBlocks);
  std::nth_element(seen.begin(), seen.begin() + static_cast<std::ptrdiff_t>(drawn), seen.end(),
                   [](const BufferLife* a, const BufferLife* b) { return a->bytes > b->bytes; });
  for (std::size_t i = 0; i < drawn; ++i) {
    const BufferLife& life = *seen[i];
    const double left = frame.axis.x_of(std::max(life.from, frame.axis.begin));
    const double right = frame.axis.x_of(std::min(life.until, frame.axis.end));
    const double top = frame.y_of(life.offset + life.bytes), bottom = frame.y_of(life.offset);
    const double gap_x = right - left >= 4 ? 1 : 0, gap_y = bottom - top >= 4 ? 1 : 0;
    const QRectF box(frame.plot.left() + left, top, std::max(right - left - gap_x, 0.5),
                     bottom - top - gap_y);
    const int ink = model.ink_of(life);
    list.fill(box, memory_ink(ink), memory_hatch(ink));
    if (box.height() < text.line_height - 3 || box.width() < 8 * text.char_width) continue;
    const std::string words = text.elided(model.describe(life), box.width() - 6);
    list.texts.push_back({box.adjusted(3, 0, -3, 0), words, memory_ink(ink), true});
  }
  draw_terms(list, model, frame, text);
  draw_excess(list, model, frame);
  draw_capacity(list, model, frame, text);
  if (drawn < seen.size()) {
    list.text({frame.plot.left(), frame.plot.top() - text.line_height, frame.plot.width(),
               text.line_height},
              count_text(static_cast<std::int64_t>(seen.size() - drawn)) +
                  " of the smallest blocks are not drawn",
              Ink::Faint);
  }
  return list;
}

const BufferLife* block_at(const MemoryModel& model, const MemoryFrame& frame, QPointF point) {
  if (!frame.plot.contains(point)) return nullptr;
  const SimTime t = frame.axis.time_at(point.x() - frame.plot.left());
  const auto address = static_cast<std::int64_t>(
      (frame.plot.bottom() - point.y()) / frame.plot.height() * static_cast<double>(frame.top));
  for (const BufferLife& life : model.lives) {
    if (t >= life.from && t < life.until && address >= life.offset &&
        address < life.offset + life.bytes) {
      return &life;
    }
  }
  return nullptr;
}

DisplayList draw_memory_legend(const MemoryModel& model, SimTime t, QRectF rect,
                               const TextSize& text) {
  DisplayList list;
  const MemorySample* sample = model.curve.at(t);
  if (!sample) return list;
  double x = rect.x();
  double y = rect.y();
  const auto entry = [&](Ink ink, Hatch hatch, const std::string& words, bool swatch) {
    const double width = text.width_of(words) + (swatch ? 20 : 6) + 8;
    if (x + width > rect.right() && x > rect.x()) {
      x = rect.x();
      y += text.line_height + 2;
    }
    if (swatch) list.fill({x, y + 3, 12, text.line_height - 6}, ink, hatch);
    list.text({x + (swatch ? 16 : 0), y, width, text.line_height}, words);
    x += width;
  };
  entry(Ink::Text, Hatch::None, "in use " + bytes_text(Bytes{total_bytes(*sample)}), false);
  for (std::size_t kind = 0; kind < sample->bytes_by_kind.size(); ++kind) {
    if (sample->bytes_by_kind[kind] == 0) continue;
    entry(
        memory_ink(static_cast<int>(kind)), memory_hatch(static_cast<int>(kind)),
        model.run->trace.memory_kinds[kind] + " " + bytes_text(Bytes{sample->bytes_by_kind[kind]}),
        true);
  }
  for (std::size_t i = 0; i < model.device.terms.size(); ++i) {
    const MemoryTerm& term = model.device.terms[i];
    const bool less = term.bytes.v < 0;
    entry(Ink::Idle, term_hatch(i),
          term.name + (less ? " −" : " ") + bytes_text(Bytes{std::abs(term.bytes.v)}), !less);
  }
  return list;
}

// ---------------------------------------------------------------- the arena

ArenaPicture arena_picture(const MemoryModel& model, SimTime t, QRectF rect, const TextSize& text) {
  ArenaPicture picture;
  picture.rect = rect;
  picture.line_height = text.line_height + 4;
  picture.lines = std::max(1, static_cast<int>(rect.height() / picture.line_height));
  if (!model.lives.empty()) picture.state = arena_at(model.lives, model.curve.arena, t);
  return picture;
}

namespace {

/// Calls visit(rect, is_first) for the part of [offset, offset + bytes) on each line.
template <class Visit>
void for_each_part(const ArenaPicture& picture, std::int64_t offset, std::int64_t bytes,
                   Visit visit) {
  const std::int64_t per_line = picture.bytes_per_line();
  if (per_line <= 0) return;
  const double scale = picture.rect.width() / static_cast<double>(per_line);
  for (std::int64_t at = offset; at < offset + bytes;) {
    const std::int64_t line = at / per_line;
    const std::int64_t end = std::min(offset + bytes, (line + 1) * per_line);
    visit(QRectF(picture.rect.x() + static_cast<double>(at - line * per_line) * scale,
                 picture.rect.y() + static_cast<double>(line) * picture.line_height,
                 static_cast<double>(end - at) * scale, picture.line_height - 2),
          at == offset);
    at = end;
  }
}

}  // namespace

const BufferLife* ArenaPicture::at(QPointF point) const {
  if (!rect.contains(point) || state.arena == 0) return nullptr;
  const auto line = static_cast<std::int64_t>((point.y() - rect.y()) / line_height);
  const std::int64_t address =
      line * bytes_per_line() + static_cast<std::int64_t>((point.x() - rect.x()) / rect.width() *
                                                          static_cast<double>(bytes_per_line()));
  for (const BufferLife& life : state.live) {
    if (address >= life.offset && address < life.offset + life.bytes) return &life;
  }
  return nullptr;
}

DisplayList draw_arena(const MemoryModel& model, const ArenaPicture& picture,
                       const TextSize& text) {
  DisplayList list;
  if (picture.state.arena == 0) return list;
  for_each_part(picture, 0, picture.state.arena,
                [&](const QRectF& rect, bool) { list.fill(rect, Ink::Idle, Hatch::Rising); });
  for (const BufferLife& life : picture.state.live) {
    const int kind = model.ink_of(life);
    const Ink ink = memory_ink(kind);
    const std::string words = model.describe(life);
    for_each_part(picture, life.offset, life.bytes, [&](const QRectF& rect, bool first) {
      const double gap = rect.width() >= 3 ? 1 : 0;
      list.fill({rect.x(), rect.y(), rect.width() - gap, rect.height()}, ink, memory_hatch(kind));
      if (first && text.width_of(words) + 6 < rect.width()) {
        list.texts.push_back({rect.adjusted(3, 0, -3, 0), words, ink, true});
      }
    });
  }
  const std::vector<std::size_t> next = picture.state.next_freed();
  for (std::size_t i = 0; i < std::min(next.size(), kMarkedNext); ++i) {
    const BufferLife& life = picture.state.live[next[i]];
    for_each_part(picture, life.offset, life.bytes, [&](const QRectF& rect, bool) {
      list.outlines.push_back({rect, Ink::Accent});
    });
  }
  return list;
}

}  // namespace lockstep::gui
