// Play's picture: ranks as boxes that work or wait, what moves between them, and the utilization
// that has been filled up so far.
#pragma once

#include <string>
#include <vector>

#include "core/analysis/in_flight.hpp"
#include "gui/draw/display_list.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

/// Where the ranks stand: a column per pipeline stage, ranks of a stage below each other; without a
/// pipeline side by side, every other line of eight from the right, so that a ring closes. Of more
/// than sixteen ranks only those with spans of their own.
struct Stage {
  std::vector<Rank> ranks;                // ascending
  std::vector<QRectF> boxes;              // by position in `ranks`
  QRectF strip;                           // the utilization of all ranks
  double below = 0;                       // y under the boxes where long ways go along
  const QRectF* box_of(Rank rank) const;  // null: another rank stands for it
};
Stage set_stage(const RunView& run, const StepView& step, QRectF rect, const TextSize& text);

/// The way from the edge of one box to that of another: straight where no box stands between, else
/// beside or below them.
std::vector<QPointF> way_between(const Stage& stage, Rank from, Rank to);

/// Transfers shorter than this part of the step are shown for so long: nobody would see them.
inline constexpr double kLeastFlight = 1.0 / 60;

/// The moment `t`. A message is a token on its way from box to box; a collective's tokens go round
/// the ring of its ranks.
DisplayList draw_play(const RunView& run, const StepView& step, const Stage& stage, SimTime t,
                      const TextSize& text);

/// Words broken into at most `lines` lines of `width`; the last one ends in "…" if there are more.
std::vector<std::string> wrap(const std::string& words, double width, int lines,
                              const TextSize& text);

}  // namespace lockstep::gui
