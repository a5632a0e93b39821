// Shards drawing: the mesh as a picture. Each rank is a box with a bar for each state, whose width
// stands for the whole model.
#pragma once

#include "gui/draw/display_list.hpp"
#include "gui/model/run/shards_model.hpp"

namespace lockstep::gui {

/// Where the bars of each rank are. Each pipeline stage has a column.
struct ShardsFrame {
  struct Place {
    QRectF box;
    std::array<QRectF, kNumStateKinds> bars;
  };
  std::vector<Place> ranks;  // by position in ShardsModel::ranks
};
ShardsFrame shards_frame(const ShardsModel& model, QRectF rect, const TextSize& text);

/// Draws what each rank keeps, and what it has gathered besides at `t`, which is hatched while it
/// arrives.
DisplayList draw_shards(const ShardsModel& model, const ShardsFrame& frame, SimTime t,
                        const TextSize& text);

/// Draws what the colours mean, and the largest part of each state that a rank keeps.
DisplayList draw_shards_legend(const ShardsModel& model, QRectF rect, const TextSize& text);

}  // namespace lockstep::gui
