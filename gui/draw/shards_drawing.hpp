// The device mesh as a picture: a box per rank, in it a bar per state, drawn to the scale of the
// whole model.
#pragma once

#include "gui/draw/display_list.hpp"
#include "gui/model/run/shards_model.hpp"

namespace lockstep::gui {

/// Where the bars of each rank stand: a column per pipeline stage, as in a picture of the pipeline.
struct ShardsFrame {
  struct Place {
    QRectF box;
    std::array<QRectF, kNumStateKinds> bars;
  };
  std::vector<Place> ranks;  // by position in ShardsModel::ranks
};
ShardsFrame shards_frame(const ShardsModel& model, QRectF rect, const TextSize& text);

/// What each rank keeps, and at `t` has gathered besides (hatched while it arrives).
DisplayList draw_shards(const ShardsModel& model, const ShardsFrame& frame, SimTime t,
                        const TextSize& text);

/// Colours in words, and the largest part that a rank keeps of each state.
DisplayList draw_shards_legend(const ShardsModel& model, QRectF rect, const TextSize& text);

}  // namespace lockstep::gui
