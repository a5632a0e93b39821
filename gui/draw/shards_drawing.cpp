#include "gui/draw/shards_drawing.hpp"

#include <algorithm>
#include <map>

#include "core/format/format.hpp"

namespace lockstep::gui {
namespace {

constexpr double kRoomOfRank = 52;  // preferred height of a rank, in pixels
constexpr std::array<const char*, kNumStateKinds> kLetters = {"P", "G", "O"};
constexpr std::array<const char*, kNumStateKinds> kNames = {"parameters", "gradients",
                                                            "optimizer states"};

QRectF part_of(const QRectF& bar, const Stretch& stretch) {
  return {bar.x() + stretch.begin * bar.width(), bar.y(), stretch.size() * bar.width(),
          bar.height()};
}

Ink ink_of(StateKind kind) { return memory_ink(static_cast<int>(buffer_kind(kind))); }

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
      std::min(rect.height() / static_cast<double>(deepest), 4 * (text.line_height + 4) + 12);
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
      const double bar = (place.box.height() - label - 6) / kNumStateKinds;
      for (std::size_t k = 0; k < kNumStateKinds; ++k) {
        place.bars[k] =
            QRectF(place.box.x() + letter, place.box.y() + label + 2 + static_cast<double>(k) * bar,
                   std::max(place.box.width() - letter - 4, 1.0), std::max(bar - 2, 1.0));
      }
    }
    ++c;
  }
  return frame;
}

DisplayList draw_shards(const ShardsModel& model, const ShardsFrame& frame, SimTime t,
                        const TextSize& text) {
  DisplayList list;
  for (std::size_t i = 0; i < frame.ranks.size(); ++i) {
    const ShardsFrame::Place& place = frame.ranks[i];
    const RankStates& states = model.ranks[i];
    list.fill(place.box, Ink::Band);
    if (place.bars[0].y() > place.box.y() + text.line_height) {
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
    for (std::size_t k = 0; k < kNumStateKinds; ++k) {
      const QRectF& bar = place.bars[k];
      list.fill(bar, Ink::Background);
      if (bar.height() >= text.line_height - 6) {
        list.texts.push_back(
            {{place.box.x() + 2, bar.y(), bar.x() - place.box.x() - 2, bar.height()},
             kLetters[k],
             Ink::Faint,
             false,
             Align::Center,
             false,
             true});
      }
      if (k == 0) {
        for (const ShardsModel::Gathered& unit : model.gathered(i, t)) {
          const QRectF rect = part_of(bar, unit.stretch);
          list.fill(rect, memory_ink(static_cast<int>(BufferKind::ParamFull)),
                    unit.arriving ? Hatch::Rising : Hatch::None);
          if (text.width_of(unit.unit) + 4 < rect.width() &&
              rect.height() >= text.line_height - 4) {
            list.texts.push_back({rect, unit.unit,
                                  memory_ink(static_cast<int>(BufferKind::ParamFull)), true,
                                  Align::Center, false, true});
          }
        }
      }
      const Ink ink = ink_of(static_cast<StateKind>(k));
      for (const Stretch& stretch : states.owned[k]) {
        QRectF rect = part_of(bar, stretch);
        // What is gathered takes the lower half of the bar, so that what is owned stays visible.
        if (k == 0) rect.setTop(rect.center().y());
        list.fill(rect, ink);
      }
    }
  }
  return list;
}

DisplayList draw_shards_legend(const ShardsModel& model, QRectF rect, const TextSize& text) {
  DisplayList list;
  double x = rect.x();
  const auto entry = [&](Ink ink, const std::string& words) {
    list.fill({x, rect.y() + 3, 12, text.line_height - 6}, ink);
    const double width = text.width_of(words) + 28;
    list.text({x + 16, rect.y(), width, text.line_height}, words);
    x += width;
  };
  for (std::size_t k = 0; k < kNumStateKinds; ++k) {
    double most = 0;
    for (const RankStates& states : model.ranks) {
      double sum = 0;
      for (const Stretch& stretch : states.owned[k]) sum += stretch.size();
      most = std::max(most, sum);
    }
    entry(ink_of(static_cast<StateKind>(k)),
          std::string(kLetters[k]) + " " + kNames[k] + ": at most " + percent_text(most));
  }
  entry(memory_ink(static_cast<int>(BufferKind::ParamFull)), "gathered now");
  return list;
}

}  // namespace lockstep::gui
