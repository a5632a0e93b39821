// Memory's pictures: bytes of each kind against time, and the arena at one moment.
#pragma once

#include <optional>
#include <vector>

#include "gui/draw/display_list.hpp"
#include "gui/model/run/memory_model.hpp"
#include "gui/model/timeline/time_axis.hpp"

namespace lockstep::gui {

/// Where the curve stands: the plot, and what its edges mean.
struct MemoryFrame {
  QRectF plot;
  TimeAxis axis;         // width = plot's
  std::int64_t top = 1;  // bytes at the plot's upper edge
  double y_of(std::int64_t bytes) const {
    return plot.bottom() - plot.height() * static_cast<double>(bytes) / static_cast<double>(top);
  }
};
/// `others` are drawn on the same axes: the top suits all. The capacity is shown if it is near.
MemoryFrame memory_frame(const MemoryModel& model, const std::vector<MemoryModel>& others,
                         QRectF rect, const TextSize& text);

/// Kinds stacked in BufferKind's order; of the samples that share a pixel, the one with the largest
/// total. The peak is marked, the capacity is a line; of `others` the totals are lines, each laid
/// over the step's length.
DisplayList draw_memory_curve(const MemoryModel& model, const std::vector<MemoryModel>& others,
                              const MemoryFrame& frame, const TextSize& text);

/// The kinds that are in use at `t`, with their bytes: a legend that tells numbers.
DisplayList draw_memory_legend(const MemoryModel& model, SimTime t, QRectF rect,
                               const TextSize& text);

/// The arena in lines of equal bytes, address 0 at the top left. What is freed next has an outline;
/// holes are hatched.
struct ArenaPicture {
  ArenaState state;
  QRectF rect;
  int lines = 1;
  double line_height = 0;
  std::int64_t bytes_per_line() const { return (state.arena + lines - 1) / lines; }
  /// The live buffer under a point.
  const BufferLife* at(QPointF point) const;
};
ArenaPicture arena_picture(const MemoryModel& model, SimTime t, QRectF rect, const TextSize& text);
DisplayList draw_arena(const MemoryModel& model, const ArenaPicture& picture, const TextSize& text);

}  // namespace lockstep::gui
