#include "gui/draw/shards_drawing.hpp"

#include <algorithm>
#include <map>

#include "core/format/format.hpp"
#include "gui/draw/play_drawing.hpp"

namespace lockstep::gui {
namespace {

constexpr double kRoomOfRank = 64;  // preferred height of a rank, in pixels
constexpr int kBars = kNumStateBars + 2;
constexpr std::array<const char*, kNumStateBars> kLetters = {"P", "G", "O"};
constexpr std::array<const char*, kNumStateBars> kNames = {"parameters", "gradients", "optimizer"};

QRectF part_of(const QRectF& bar, const Stretch& stretch) {
  return {bar.x() + stretch.begin * bar.width(), bar.y(), stretch.size() * bar.width(),
          bar.height()};
}

Ink ink_of(StateBar kind) { return memory_ink(static_cast<int>(buffer_kind(kind))); }

void write_letter(DisplayList& list, const QRectF& box, const QRectF& bar, const char* words,
                  const TextSize& text) {
  if (bar.height() < text.line_height - 6) return;
  list.texts.push_back({{box.x() + 2, bar.y(), bar.x() - box.x() - 2, bar.height()},
                        words,
                        Ink::Faint,
                        false,
                        Align::Center,
                        false,
                        true});
}

void write_label(DisplayList& list, const QRectF& rect, const std::string& words, Ink on,
                 const TextSize& text) {
  if (text.width_of(words) + 4 >= rect.width() || rect.height() < text.line_height - 4) return;
  list.texts.push_back({rect, words, on, true, Align::Center, false, true});
}

/// The rank's microbatches, in its stretch of the batch.
void draw_batch(DisplayList& list, const QRectF& bar, const RankStates& states,
                const DataFlow& flow, SimTime t, const TextSize& text) {
  list.fill(bar, Ink::Background);
  const std::vector<MicrobatchProgress> microbatches = flow.microbatches(t);
  const auto count = static_cast<double>(std::max<std::size_t>(microbatches.size(), 1));
  QRectF own = part_of(bar, states.batch);
  own.setTop(bar.y() + states.tokens.begin * bar.height());
  own.setHeight(states.tokens.size() * bar.height());
  list.fill(own, memory_ink(static_cast<int>(BufferKind::Input)));
  for (std::size_t i = 0; i < microbatches.size(); ++i) {
    const MicrobatchProgress& m = microbatches[i];
    const QRectF cell(own.x() + own.width() * static_cast<double>(i) / count, own.y(),
                      own.width() / count, own.height());
    if (m.forward > 0) {
      list.fill({cell.x(), cell.y(), cell.width() * m.forward, cell.height()},
                ink_of(Look::Forward));
    }
    if (m.backward > 0) {
      const double width = cell.width() * m.backward;
      list.fill({cell.right() - width, cell.y(), width, cell.height()}, ink_of(Look::Backward));
    }
    if (i > 0) list.line(cell.topLeft(), cell.bottomLeft(), Ink::Background);
    const Look look = m.backward > 0 ? Look::Backward : Look::Forward;
    if (m.forward == 1) {
      write_label(list, cell, std::to_string(m.microbatch), ink_of(look), text);
    }
  }
}

/// The parameters that a rank keeps, and those that it has gathered.
void draw_parameters(DisplayList& list, const QRectF& bar, const RankStates& states,
                     const std::vector<ShardsModel::Gathered>& gathered, const TextSize& text) {
  const Ink full = memory_ink(static_cast<int>(BufferKind::ParamFull));
  for (const ShardsModel::Gathered& unit : gathered) {
    const QRectF rect = part_of(bar, unit.stretch);
    list.fill(rect, full, unit.arriving ? Hatch::Rising : Hatch::None);
    write_label(list, rect, unit.unit, full, text);
  }
  for (const Stretch& stretch : states.owned[StateBar::Parameters]) {
    QRectF rect = part_of(bar, stretch);
    rect.setTop(rect.center().y());  // what is owned stays visible below what is gathered
    list.fill(rect, ink_of(StateBar::Parameters));
  }
}

/// The gradients of a rank: where it keeps them in the end, and as far as they are.
void draw_gradients(DisplayList& list, const QRectF& bar, const RankStates& states,
                    const DataFlow& flow, SimTime t) {
  const Ink ink = ink_of(StateBar::Gradients);
  for (const Stretch& stretch : states.owned[StateBar::Gradients]) {
    const QRectF rect = part_of(bar, stretch);
    list.fill({rect.x(), rect.bottom() - 2, rect.width(), 2}, ink);
  }
  for (const Stretch& unit : states.units) {
    const GradientProgress progress = flow.gradients(unit.layer, t);
    if (progress.added == 0 || progress.summed == 1) continue;
    QRectF rect = part_of(bar, unit);
    rect.setTop(rect.bottom() - rect.height() * progress.added);
    list.fill(rect, ink, progress.moving ? Hatch::Cross : Hatch::Rising);
  }
  for (const Stretch& stretch : states.owned[StateBar::Gradients]) {
    if (flow.gradients(stretch.layer, t).summed == 1) list.fill(part_of(bar, stretch), ink);
  }
}

/// A line above what is updated.
void draw_updates(DisplayList& list, const QRectF& bar, const RankStates& states,
                  const DataFlow& flow, SimTime t) {
  for (const Stretch& stretch : states.owned[StateBar::Optimizer]) {
    if (!flow.gradients(stretch.layer, t).updated) continue;
    const QRectF rect = part_of(bar, stretch);
    list.fill({rect.x(), rect.y(), rect.width(), std::min(3.0, rect.height() / 2)}, Ink::Ok);
  }
}

/// What moves, and how far it has come.
void draw_moving(DisplayList& list, const QRectF& bar, const ShardsModel::Moving& moving,
                 const TextSize& text) {
  list.fill({bar.x(), bar.y(), bar.width() * moving.done, bar.height()}, ink_of(moving.look),
            hatch_of(moving.look));
  if (bar.height() < text.line_height - 4) return;
  const std::string words = text.elided(moving.words, bar.width() - 8);
  const double width = std::min(text.width_of(words) + 6, bar.width());
  const QRectF plate(bar.right() - width, bar.y(), width, bar.height());
  list.fill(plate, Ink::Background);
  list.texts.push_back({plate, words, Ink::Text, false, Align::Center, false, true});
}

}  // namespace

ShardsFrame shards_frame(const ShardsModel& model, QRectF rect, const TextSize& text) {
  ShardsFrame frame;
  if (model.empty()) return frame;
  std::map<int, std::vector<std::size_t>> columns;  // by pipeline coordinate
  for (std::size_t i = 0; i < model.ranks.size(); ++i) {
    const Rank rank = model.ranks[i].rank;
    columns[std::max(coordinate(model.run->trace.rank_labels[rank], "pp"), 0)].push_back(i);
  }
  if (columns.size() == 1) {
    const std::vector<std::size_t> all = columns.begin()->second;
    // Without a pipeline, ranks are below each other, so that their parts look like stairs, in as
    // few columns as possible.
    const auto fitting = static_cast<std::size_t>(std::max(rect.height() / kRoomOfRank, 1.0));
    const std::size_t wide = (all.size() + fitting - 1) / fitting;
    const std::size_t deep = (all.size() + wide - 1) / wide;
    columns.clear();
    for (std::size_t i = 0; i < all.size(); ++i) {
      columns[static_cast<int>(i / deep)].push_back(all[i]);
    }
  }
  std::size_t deepest = 1;
  for (const auto& [pp, members] : columns) deepest = std::max(deepest, members.size());
  const double width = rect.width() / static_cast<double>(columns.size());
  const double height =
      std::min(rect.height() / static_cast<double>(deepest), 6 * (text.line_height + 4) + 12);
  const double label = height > 3 * text.line_height ? text.line_height : 0;
  // Beside the bars are their letters; or the number of the rank, if there is no room for its name.
  const double letter =
      text.width_of(label > 0 ? "P" : std::to_string(model.ranks.back().rank)) + 6;
  frame.ranks.resize(model.ranks.size());
  std::size_t c = 0;
  for (const auto& [pp, members] : columns) {
    for (std::size_t r = 0; r < members.size(); ++r) {
      ShardsFrame::Place& place = frame.ranks[members[r]];
      place.box = QRectF(rect.x() + static_cast<double>(c) * width + 4,
                         rect.y() + static_cast<double>(r) * height + 2, width - 8, height - 4);
      const double bar = (place.box.height() - label - 6) / kBars;
      const auto at = [&](std::size_t row) {
        return QRectF(place.box.x() + letter,
                      place.box.y() + label + 2 + static_cast<double>(row) * bar,
                      std::max(place.box.width() - letter - 4, 1.0), std::max(bar - 2, 1.0));
      };
      place.batch = at(0);
      for (std::size_t k = 0; k < kNumStateBars; ++k) place.bars[k] = at(k + 1);
      place.moving = at(kNumStateBars + 1);
    }
    ++c;
  }
  return frame;
}

DisplayList draw_shards(const ShardsModel& model, const ShardsFrame& frame, SimTime t,
                        const TextSize& text) {
  DisplayList list;
  if (model.empty()) return list;
  const StepGraph& step = model.run->steps.front().graph;
  const SimTime linger = linger_at(step, t);
  const std::vector<Flight> flights = in_flight(step, t, linger);
  for (std::size_t i = 0; i < frame.ranks.size(); ++i) {
    const ShardsFrame::Place& place = frame.ranks[i];
    const RankStates& states = model.ranks[i];
    list.fill(place.box, Ink::Band);
    if (place.batch.y() > place.box.y() + text.line_height) {
      list.texts.push_back(
          {{place.box.x() + 4, place.box.y() + 1, place.box.width() - 8, text.line_height},
           model.run->trace.rank_labels[states.rank],
           Ink::Text,
           false,
           Align::Left,
           false,
           true});
    } else if (place.box.height() >= text.line_height - 6) {
      list.texts.push_back({{place.box.x() + 2, place.box.y(),
                             place.bars[0].x() - place.box.x() - 4, place.box.height()},
                            std::to_string(states.rank),
                            Ink::Faint,
                            false,
                            Align::Right,
                            false,
                            true});
    }
    const DataFlow& flow = model.flow(i);
    write_letter(list, place.box, place.batch, "B", text);
    draw_batch(list, place.batch, states, flow, t, text);
    for (std::size_t k = 0; k < kNumStateBars; ++k) {
      list.fill(place.bars[k], Ink::Background);
      write_letter(list, place.box, place.bars[k], kLetters[k], text);
    }
    draw_parameters(list, place.bars[0], states, model.gathered(i, t), text);
    draw_gradients(list, place.bars[1], states, flow, t);
    for (const Stretch& stretch : states.owned[StateBar::Optimizer]) {
      list.fill(part_of(place.bars[2], stretch), ink_of(StateBar::Optimizer));
    }
    draw_updates(list, place.bars[2], states, flow, t);
    write_letter(list, place.box, place.moving, "→", text);
    const auto moving = model.moving(i, flights, t, linger);
    if (moving) draw_moving(list, place.moving, *moving, text);
  }
  return list;
}

DisplayList draw_shards_legend(const ShardsModel& model, QRectF rect, const TextSize& text) {
  DisplayList list;
  double x = rect.x(), y = rect.y();
  const auto entry = [&](Ink ink, const std::string& words) {
    const double width = text.width_of(words) + 28;
    if (x + width > rect.right() && x > rect.x()) {
      x = rect.x();
      y += text.line_height;
    }
    list.fill({x, y + 3, 12, text.line_height - 6}, ink);
    list.text({x + 16, y, width, text.line_height}, words);
    x += width;
  };
  entry(ink_of(Look::Forward), "B forward");
  entry(ink_of(Look::Backward), "backward");
  for (std::size_t k = 0; k < kNumStateBars; ++k) {
    double most = 0;
    for (const RankStates& states : model.ranks) {
      double sum = 0;
      for (const Stretch& stretch : states.owned[k]) sum += stretch.size();
      most = std::max(most, sum);
    }
    entry(ink_of(static_cast<StateBar>(k)),
          std::string(kLetters[k]) + " " + kNames[k] + " ≤ " + percent_text(most));
  }
  entry(memory_ink(static_cast<int>(BufferKind::ParamFull)), "gathered");
  entry(Ink::Ok, "updated");
  return list;
}

}  // namespace lockstep::gui
