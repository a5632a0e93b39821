#include "gui/draw/play_drawing.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <sstream>

#include "core/format/format.hpp"
#include "gui/draw/timeline_drawing.hpp"

namespace lockstep::gui {
namespace {

constexpr int kComputeStream = static_cast<int>(Stream::Compute);
constexpr double kToken = 12;  // pixels
constexpr double kLeastBoxHeight = 22;

QPointF between(QPointF a, QPointF b, double part) { return a + (b - a) * part; }

void draw_token(DisplayList& list, QPointF at, Look look) {
  const QRectF rect(at.x() - kToken / 2, at.y() - kToken / 2, kToken, kToken);
  list.fill(rect.adjusted(-1, -1, 1, 1), Ink::Text);
  list.fill(rect, ink_of(look), hatch_of(look));
}

void draw_box(DisplayList& list, const RunView& run, const StepView& step, Rank rank,
              const QRectF& box, SimTime t, const TextSize& text) {
  const RankActivity activity = activity_at(step.graph, step.bubbles, rank, t);
  std::string words;
  if (activity.computing >= 0) {
    const Span& span = step.graph[activity.computing];
    const Look look = run.lanes.look(span);
    list.fill(box, ink_of(look));
    words = label(run.lanes.op(span), look);
    // How far the op is.
    const double length = static_cast<double>((span.end - span.begin).count());
    const double part = length > 0 ? static_cast<double>((t - span.begin).count()) / length : 1;
    list.fill({box.x(), box.bottom() - 4, box.width() * std::clamp(part, 0.0, 1.0), 4}, Ink::Text);
    list.texts.push_back({box, words, ink_of(look), true, Align::Center, true});
  } else {
    list.fill(box, Ink::Background);
    list.fill(box, Ink::Idle, Hatch::Rising);
    if (activity.bubble) {
      words = to_string(activity.bubble->cause);
      const double width = std::min(text.width_of(words) + 6, box.width());
      const QRectF plate(box.center().x() - width / 2, box.center().y() - text.line_height / 2,
                         width, text.line_height);
      list.fill(plate, Ink::Background);
      list.text(plate, words, Ink::Text, Align::Center);
    }
  }
  list.outlines.push_back({box, Ink::Grid, 1});
}

}  // namespace

const QRectF* Stage::box_of(Rank rank) const {
  const auto found = std::lower_bound(ranks.begin(), ranks.end(), rank);
  if (found == ranks.end() || *found != rank) return nullptr;
  return &boxes[static_cast<std::size_t>(found - ranks.begin())];
}

Stage set_stage(const RunView& run, const StepView& step, QRectF rect, const TextSize& text) {
  Stage stage;
  stage.ranks = step.graph.ranks();
  if (stage.ranks.empty()) return stage;
  std::map<int, std::vector<std::size_t>> columns;  // by pipeline coordinate
  for (std::size_t i = 0; i < stage.ranks.size(); ++i) {
    const std::string& name = run.trace.rank_labels[static_cast<std::size_t>(stage.ranks[i])];
    columns[std::max(coordinate(name, "pp"), 0)].push_back(i);
  }
  if (columns.size() == 1) {  // no pipeline: side by side, in lines of eight
    const std::vector<std::size_t> all = columns.begin()->second;
    const std::size_t wide = std::min<std::size_t>(all.size(), 8);
    columns.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      columns[static_cast<int>(i % wide)].push_back(all[i]);
    }
  }
  std::size_t deepest = 1;
  for (const auto& [pp, members] : columns) deepest = std::max(deepest, members.size());
  const double strip =
      std::min(rect.height() * 0.35, 6.0 + 14.0 * static_cast<double>(stage.ranks.size()));
  stage.strip = {rect.x() + 8, rect.bottom() - strip, rect.width() - 16, strip - 4};
  const QRectF field(rect.x() + 8, rect.y() + 4, rect.width() - 16, rect.height() - strip - 12);
  const double column_width = field.width() / static_cast<double>(columns.size());
  const double row_height = field.height() / static_cast<double>(deepest);
  const double gap = std::clamp(column_width * 0.25, 8.0, 60.0);
  const double label_height =
      row_height > kLeastBoxHeight + text.line_height ? text.line_height : 0;
  stage.boxes.resize(stage.ranks.size());
  std::size_t c = 0;
  for (const auto& [pp, members] : columns) {
    for (std::size_t r = 0; r < members.size(); ++r) {
      stage.boxes[members[r]] =
          QRectF(field.x() + static_cast<double>(c) * column_width + gap / 2,
                 field.y() + static_cast<double>(r) * row_height + label_height, column_width - gap,
                 std::min(row_height - label_height - 6, 80.0));
    }
    ++c;
  }
  return stage;
}

DisplayList draw_play(const RunView& run, const StepView& step, const Stage& stage, SimTime t,
                      const TextSize& text) {
  DisplayList list;
  for (std::size_t i = 0; i < stage.ranks.size(); ++i) {
    const Rank rank = stage.ranks[i];
    const QRectF& box = stage.boxes[i];
    draw_box(list, run, step, rank, box, t, text);
    list.texts.push_back({{box.x(), box.y() - text.line_height, box.width(), text.line_height},
                          run.trace.rank_labels[static_cast<std::size_t>(rank)],
                          Ink::Faint,
                          false,
                          Align::Left,
                          false,
                          true});
  }
  // What is under way. Tokens are boxes: they come after those of the ranks.
  std::vector<std::string> under_way;
  for (const Flight& flight : in_flight(step.graph, t)) {
    std::vector<QPointF> points;
    for (const Rank rank : flight.ranks) {
      if (const QRectF* box = stage.box_of(rank)) points.push_back(box->center());
    }
    const Look look = run.lanes.look(step.graph[flight.span]);
    const std::string words = std::string(long_name(look)) + " " + bytes_text(Bytes{flight.bytes});
    if (std::find(under_way.begin(), under_way.end(), words) == under_way.end()) {
      under_way.push_back(words);
    }
    if (points.size() < 2) continue;
    const std::size_t edges = flight.message || points.size() == 2 ? 1 : points.size();
    for (std::size_t i = 0; i < edges; ++i) {
      const QPointF from = points[i], to = points[(i + 1) % points.size()];
      list.lines.push_back({from, to, Ink::Accent, 1.5F, false, flight.message});
      if (flight.message) {
        draw_token(list, between(from, to, flight.done), look);
        continue;
      }
      // Every rank passes a part on to the next, n-1 times in the length of a gather or scatter.
      const double rounds = flight.done * static_cast<double>(flight.ranks.size() - 1);
      const double part = rounds - std::floor(rounds);
      draw_token(list, between(from, to, part), look);
      if (edges == 1) draw_token(list, between(to, from, part), look);
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
  // The strip fills up as time goes by.
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
  std::erase_if(list.texts, [&](const Text& words) {  // labels of spans that are yet to come
    return stage.strip.contains(words.rect.center()) && words.rect.right() > now + 1;
  });
  list.line({now, stage.strip.top()}, {now, stage.strip.bottom()}, Ink::Accent, 2);
  return list;
}

std::vector<std::string> wrap(const std::string& words, double width, int lines,
                              const TextSize& text) {
  std::vector<std::string> out;
  std::istringstream in(words);
  std::string line;
  for (std::string word; in >> word;) {
    const std::string longer = line.empty() ? word : line + " " + word;
    if (line.empty() || text.width_of(longer) <= width) {
      line = longer;
      continue;
    }
    if (static_cast<int>(out.size()) + 1 == lines) {
      out.push_back(line + " …");
      return out;
    }
    out.push_back(line);
    line = word;
  }
  if (!line.empty()) out.push_back(line);
  return out;
}

}  // namespace lockstep::gui
