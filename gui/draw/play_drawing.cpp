#include "gui/draw/play_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

#include "core/format/format.hpp"
#include "gui/draw/timeline_drawing.hpp"
#include "gui/draw/wrapped_text.hpp"

namespace lockstep::gui {
namespace {

constexpr int kComputeStream = static_cast<int>(Stream::Compute);
constexpr double kToken = 12;                // pixels
constexpr double kBelowBox = 6, kPlate = 4;  // pixels: under a box, and round the words in it
constexpr double kLeastFrame = 8;            // a lower box would be all frame and no colour
/// Of more ranks, or where each would get less than a line of text, those that do the same share a
/// box.
constexpr std::size_t kMostOnStage = 16;

double length(QPointF v) { return std::hypot(v.x(), v.y()); }

/// The point at which the line from the middle of `box` towards `to` leaves the box.
QPointF edge(const QRectF& box, QPointF to) {
  const QPointF d = to - box.center();
  const double x = d.x() == 0 ? 1e9 : box.width() / 2 / std::abs(d.x());
  const double y = d.y() == 0 ? 1e9 : box.height() / 2 / std::abs(d.y());
  return box.center() + d * std::min({x, y, 1.0});
}

QPointF point_on(const std::vector<QPointF>& way, double part) {
  double whole = 0;
  for (std::size_t i = 1; i < way.size(); ++i) whole += length(way[i] - way[i - 1]);
  double left = part * whole;
  for (std::size_t i = 1; i < way.size(); ++i) {
    const double here = length(way[i] - way[i - 1]);
    if (left <= here && here > 0) return way[i - 1] + (way[i] - way[i - 1]) * (left / here);
    left -= here;
  }
  return way.back();
}

/// Draws a way, with a gap where its token is.
void draw_way(DisplayList& list, const std::vector<QPointF>& way, bool arrow, QPointF token) {
  for (std::size_t i = 1; i < way.size(); ++i) {
    const QPointF a = way[i - 1], b = way[i];
    const bool head = arrow && i + 1 == way.size();
    const QPointF along = b - a;
    const double whole = length(along);
    if (whole == 0) continue;
    const QPointF unit = along / whole;
    const double at = QPointF::dotProduct(token - a, unit);  // where the token is along this part
    const bool here = length(token - (a + unit * at)) < 1 && at > -kToken && at < whole + kToken;
    const double begin = here ? std::max(at - kToken * 0.7, 0.0) : whole;
    const double end = here ? std::min(at + kToken * 0.7, whole) : whole;
    if (begin > 0)
      list.lines.push_back({a, a + unit * begin, Ink::Accent, 1.5F, false, head && !here});
    if (end < whole) list.lines.push_back({a + unit * end, b, Ink::Accent, 1.5F, false, head});
  }
}

void draw_token(DisplayList& list, QPointF at, Look look) {
  const QRectF rect(at.x() - kToken / 2, at.y() - kToken / 2, kToken, kToken);
  list.fill(rect.adjusted(-1, -1, 1, 1), Ink::Text);
  list.fill(rect, ink_of(look), hatch_of(look));
}

void draw_box(DisplayList& list, const RunView& run, const StepAnalysis& step, Rank rank,
              const QRectF& box, SimTime t, const TextSize& text) {
  const RankActivity activity = activity_at(step.graph, step.bubbles, rank, t);
  std::string words;
  if (activity.computing >= 0) {
    const Span& span = step.graph[activity.computing];
    const Look look = run.lanes.look(span);
    list.fill(box, ink_of(look));
    words = label(run.lanes.op(span), look);
    // The fraction of the op that has passed.
    const double length = static_cast<double>((span.end - span.begin).count());
    const double part = length > 0 ? static_cast<double>((t - span.begin).count()) / length : 1;
    if (box.height() >= kLeastFrame) {
      list.fill({box.x(), box.bottom() - 4, box.width() * std::clamp(part, 0.0, 1.0), 4},
                Ink::Text);
    }
    if (box.height() >= text.line_height) {
      list.texts.push_back({box, words, ink_of(look), true, Align::Center, true});
    }
  } else {
    list.fill(box, Ink::Background);
    list.fill(box, Ink::Idle, Hatch::Rising);
    if (activity.bubble) {
      words = to_string(activity.bubble->cause);
      const int most = std::clamp(static_cast<int>(box.height() / text.line_height), 0, 2);
      const auto lines = wrap(words, box.width() - 8, most, text);
      double y = box.center().y() - text.line_height * static_cast<double>(lines.size()) / 2;
      for (const std::string& line : lines) {
        const double width = std::min(text.width_of(line) + 6, box.width());
        const QRectF plate(box.center().x() - width / 2, y, width, text.line_height);
        list.fill(plate, Ink::Background);
        list.text(plate, line, Ink::Text, Align::Center);
        y += text.line_height;
      }
    }
  }
  if (box.height() >= kLeastFrame) list.outlines.push_back({box, Ink::Grid, 1});
}

/// The stage of `ranks` alone.
Stage stage_of(const RunView& run, std::vector<Rank> ranks, QRectF rect, const TextSize& text) {
  Stage stage;
  stage.ranks = std::move(ranks);
  if (stage.ranks.empty()) return stage;
  std::map<int, std::vector<std::size_t>> columns;  // by pipeline coordinate
  for (std::size_t i = 0; i < stage.ranks.size(); ++i) {
    const std::string& name = run.trace.rank_labels[stage.ranks[i]];
    columns[std::max(coordinate(name, "pp"), 0)].push_back(i);
  }
  if (columns.size() == 1) {  // without a pipeline: side by side, in lines of eight
    const std::vector<std::size_t> all = columns.begin()->second;
    const std::size_t wide = std::min<std::size_t>(all.size(), 8);
    columns.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      const std::size_t along = i % wide;
      columns[static_cast<int>(i / wide % 2 == 0 ? along : wide - 1 - along)].push_back(all[i]);
    }
  }
  std::size_t deepest = 1;
  for (const auto& [pp, members] : columns) deepest = std::max(deepest, members.size());
  const double strip =
      std::min(rect.height() * 0.35, 6.0 + 14.0 * static_cast<double>(stage.ranks.size()));
  stage.strip = {rect.x() + 8, rect.bottom() - strip, rect.width() - 16, strip - 4};
  const QRectF field(rect.x() + 8, rect.y() + 4, rect.width() - 16,
                     rect.height() - strip - 12 - 2 * text.line_height);
  const double column_width = field.width() / static_cast<double>(columns.size());
  const double row_height = field.height() / static_cast<double>(deepest);
  const double gap = std::clamp(column_width * 0.25, 8.0, 60.0);
  const double tallest = std::max(80.0, (column_width - gap) * 0.75);
  const double least = text.line_height + kPlate + kBelowBox;
  const double label_height = row_height >= least + text.line_height ? text.line_height : 0;
  const double below = std::min(kBelowBox, row_height / 4);  // of hundreds, a row is a pixel high
  stage.names_above = label_height > 0;
  stage.boxes.resize(stage.ranks.size());
  std::size_t c = 0;
  for (const auto& [pp, members] : columns) {
    for (std::size_t r = 0; r < members.size(); ++r) {
      stage.boxes[members[r]] =
          QRectF(field.x() + static_cast<double>(c) * column_width + gap / 2,
                 field.y() + static_cast<double>(r) * row_height + label_height, column_width - gap,
                 std::min(row_height - label_height - below, tallest));
    }
    ++c;
  }
  for (const QRectF& box : stage.boxes) stage.below = std::max(stage.below, box.bottom() + 10);
  return stage;
}

}  // namespace

const StepAnalysis* step_at(const RunView& run, SimTime t) {
  for (const StepAnalysis& step : run.steps) {
    if (t <= step.graph.end()) return &step;
  }
  return run.steps.empty() ? nullptr : &run.steps.back();
}

const QRectF* Stage::box_of(Rank rank) const {
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end() || *found != rank) return nullptr;
  return &boxes[found - ranks.begin()];
}

std::vector<QPointF> way_between(const Stage& stage, Rank from, Rank to) {
  const QRectF &a = *stage.box_of(from), &b = *stage.box_of(to);
  const QPointF begin = edge(a, b.center()), end = edge(b, a.center());
  // A box that the line's own rectangle does not touch costs no more than this: of a thousand ranks
  // there are as many ways, and each asks every box.
  const double left = std::min(begin.x(), end.x()), right = std::max(begin.x(), end.x());
  const double top = std::min(begin.y(), end.y()), bottom = std::max(begin.y(), end.y());
  const auto blocked = [&](const QRectF& box) {
    if (box.left() > right || box.right() < left) return false;
    if (box.top() > bottom || box.bottom() < top) return false;
    if (box == a || box == b) return false;
    for (int i = 1; i < 32; ++i) {
      if (box.contains(begin + (end - begin) * (i / 32.0))) return true;
    }
    return false;
  };
  if (std::none_of(stage.boxes.begin(), stage.boxes.end(), blocked)) return {begin, end};
  if (std::abs(a.center().x() - b.center().x()) < 1) {  // in one column, the way goes beside it
    const double x = a.left() - 8;
    return {{a.left(), a.center().y()},
            {x, a.center().y()},
            {x, b.center().y()},
            {b.left(), b.center().y()}};
  }
  const double from_x = a.left() + a.width() / 4, to_x = b.left() + b.width() / 4;
  return {{from_x, a.bottom()}, {from_x, stage.below}, {to_x, stage.below}, {to_x, b.bottom()}};
}

Stage set_stage(const RunView& run, const StepAnalysis& step, QRectF rect, const TextSize& text) {
  const std::vector<Rank> roles = step.graph.ranks();
  if (roles.empty() || run.trace.same_as.size() > kMostOnStage) {
    return stage_of(run, roles, rect, text);
  }
  std::vector<Rank> all(run.trace.same_as.size());
  std::iota(all.begin(), all.end(), 0);
  Stage stage = stage_of(run, std::move(all), rect, text);
  const bool legible = stage.boxes.front().height() >= text.line_height + kPlate;
  return legible ? stage : stage_of(run, roles, rect, text);
}

SimTime linger_at(const StepGraph& step, SimTime t) {
  if (t >= step.end()) return {};
  return SimTime{
      static_cast<std::int64_t>(static_cast<double>(step.makespan().count()) * kLeastFlight)};
}

DisplayList draw_play(const RunView& run, const StepAnalysis& step, const Stage& stage, SimTime t,
                      const TextSize& text) {
  DisplayList list;
  const std::vector<int> copies = stands_for(run.trace);
  const bool all = stage.ranks.size() == copies.size();
  const bool low = !stage.boxes.empty() && stage.boxes.front().height() < kLeastFrame;
  for (std::size_t i = 0; i < stage.ranks.size(); ++i) {
    const Rank rank = stage.ranks[i];
    const QRectF& box = stage.boxes[i];
    draw_box(list, run, step, rank, box, t, text);
    std::string name = run.trace.rank_labels[rank];
    const int ranks = all ? 1 : copies[rank];
    if (ranks > 1) name += " ×" + std::to_string(ranks);
    if (text.width_of(name) > box.width()) name = name.substr(0, name.find(" ("));
    if (!stage.names_above) continue;
    list.texts.push_back({{box.x(), box.y() - text.line_height, box.width(), text.line_height},
                          std::move(name),
                          Ink::Faint,
                          false,
                          Align::Left,
                          false,
                          true});
  }
  // Draws what is under way. Tokens are boxes, too, and come after those of the ranks.
  std::vector<std::string> under_way;
  const SimTime linger = linger_at(step.graph, t);
  for (const Flight& flight : in_flight(step.graph, t, linger)) {
    std::vector<Rank> ranks;
    for (const Rank rank : flight.ranks) {
      if (stage.box_of(rank)) ranks.push_back(rank);
    }
    const SimTime seen = std::max(flight.end - flight.begin, linger);
    const double done = seen > SimTime{} ? static_cast<double>((t - flight.begin).count()) /
                                               static_cast<double>(seen.count())
                                         : 1;
    if (done > 1) continue;
    const Look look = run.lanes.look(step.graph[flight.span]);
    const std::string words = std::string(long_name(look)) + " " + bytes_text(Bytes{flight.bytes});
    if (std::find(under_way.begin(), under_way.end(), words) == under_way.end()) {
      under_way.push_back(words);
    }
    // Rings of ranks whose boxes are lower than a token would be a black bar; the words name them.
    if (ranks.size() < 2 || (low && !flight.message)) continue;
    const std::size_t edges = flight.message || ranks.size() == 2 ? 1 : ranks.size();
    for (std::size_t i = 0; i < edges; ++i) {
      const auto way = way_between(stage, ranks[i], ranks[(i + 1) % ranks.size()]);
      // In a gather or scatter among n ranks, every rank passes a part on to the next n-1 times.
      const double rounds =
          flight.message ? done : done * static_cast<double>(flight.ranks.size() - 1);
      const double part = flight.message ? done : rounds - std::floor(rounds);
      const QPointF token = point_on(way, part);
      draw_way(list, way, flight.message, token);
      draw_token(list, token, look);
      if (!flight.message && edges == 1) draw_token(list, point_on(way, 1 - part), look);
    }
  }
  if (!under_way.empty()) {
    std::string words = "under way: ";
    for (std::size_t i = 0; i < under_way.size(); ++i) words += (i ? ", " : "") + under_way[i];
    list.texts.push_back({{stage.strip.x(), stage.strip.y() - text.line_height - 2,
                           stage.strip.width(), text.line_height},
                          words,
                          Ink::Text,
                          false,
                          Align::Left,
                          false,
                          true});
  }
  // The strip is filled from the left as time passes.
  const TimeAxis axis{step.graph.begin(),
                      std::max(step.graph.end(), step.graph.begin() + TimeAxis::kShortest),
                      stage.strip.width()};
  const double height =
      stage.strip.height() / static_cast<double>(std::max<std::size_t>(stage.ranks.size(), 1));
  const double now = stage.strip.x() + axis.x_of(std::clamp(t, axis.begin, axis.end));
  for (std::size_t i = 0; i < stage.ranks.size(); ++i) {
    const QRectF row(stage.strip.x(), stage.strip.y() + static_cast<double>(i) * height,
                     stage.strip.width(), std::max(height - 1, 1.0));
    list.fill({row.x(), row.y(), now - row.x(), row.height()}, Ink::Idle, Hatch::Rising);
    const Lane* lane = run.lanes.find(stage.ranks[i], kComputeStream);
    if (lane) draw_lane(list, run, *lane, axis, row, text);
    list.fill({now, row.y(), row.right() - now + 4, row.height() + 1}, Ink::Background);
  }
  std::erase_if(list.texts, [&](const Text& words) {  // labels of spans that have not begun yet
    return stage.strip.contains(words.rect.center()) && words.rect.right() > now + 1;
  });
  list.line({now, stage.strip.top()}, {now, stage.strip.bottom()}, Ink::Accent, 2);
  return list;
}

}  // namespace lockstep::gui
