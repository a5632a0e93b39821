// Shards drawing: the mesh as a picture. Each rank is a box with a bar for its part of the batch, a
// bar for each state, whose width stands for the whole model, and one for what moves.
#pragma once

#include "gui/draw/display_list.hpp"
#include "gui/model/run/shards_model.hpp"

namespace lockstep::gui {

/// Where the bars of each rank are. Each pipeline stage has a column.
struct ShardsFrame {
  struct Place {
    QRectF box;
    QRectF batch;  // its width stands for the samples of the step
    std::array<QRectF, kNumStateBars> bars;
    QRectF moving;
  };
  std::vector<Place> ranks;  // by position in ShardsModel::ranks
};
ShardsFrame shards_frame(const ShardsModel& model, QRectF rect, const TextSize& text);

/// Draws what each rank keeps, and what has become of it at `t`. In the bar of the batch each
/// microbatch fills from the left as it goes forward, and from the right as it goes backward. What
/// is gathered is hatched while it arrives. Gradients grow as microbatches add to them, are hatched
/// while they are a sum of this rank's alone, and whole where they are summed over all ranks. A
/// green line above states says that they are updated.
DisplayList draw_shards(const ShardsModel& model, const ShardsFrame& frame, SimTime t,
                        const TextSize& text);

/// Draws what the colours mean, and the largest part of each state that a rank keeps.
DisplayList draw_shards_legend(const ShardsModel& model, QRectF rect, const TextSize& text);

}  // namespace lockstep::gui
