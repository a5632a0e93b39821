// Play drawing: ranks as boxes that work or wait, what moves between them, and the utilization up
// to the present moment.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/in_flight.hpp"
#include "gui/draw/display_list.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// The step that is played at `t`; null if the run has none.
const StepAnalysis* step_at(const RunView& run, SimTime t);

/// Where the boxes of the ranks are. With a pipeline, each stage has a column, in which its ranks
/// are below each other. Without one, ranks are side by side in lines of eight, every other line
/// from right to left, so that a ring of ranks closes. Of more than sixteen ranks, or where each
/// would have less room than a line of text, only those with spans of their own have boxes.
struct Stage {
  std::vector<Rank> ranks;                // ascending
  std::vector<QRectF> boxes;              // by position in `ranks`
  QRectF strip;                           // where the utilization of all ranks is drawn
  bool names_above = true;                // whether there is room for them
  double below = 0;                       // y below the boxes, along which long ways go
  const QRectF* box_of(Rank rank) const;  // null if another rank stands for it
};
Stage set_stage(const RunView& run, const StepAnalysis& step, QRectF rect, const TextSize& text);

/// The way from the edge of one box to that of another: straight if no box is between, otherwise
/// beside or below the boxes.
std::vector<QPointF> way_between(const Stage& stage, Rank from, Rank to);

/// Transfers that are shorter than this fraction of the step are shown for this long, because
/// nobody would see them otherwise.
inline constexpr double kLeastFlight = 1.0 / 60;
/// That time at `t`; 0 when the step is over.
SimTime linger_at(const StepGraph& step, SimTime t);

/// Draws the moment `t`. A message is a token on its way from box to box; the tokens of a
/// collective go round the ring of its ranks.
DisplayList draw_play(const RunView& run, const StepAnalysis& step, const Stage& stage, SimTime t,
                      const TextSize& text);

}  // namespace lockstep::gui
