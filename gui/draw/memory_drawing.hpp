// Memory drawing: the bytes of each kind over time, each block over time, and the arena at one
// moment.
#pragma once

#include <optional>
#include <vector>

#include "gui/draw/display_list.hpp"
#include "gui/model/run/memory_model.hpp"
#include "gui/model/timeline/time_axis.hpp"

namespace lockstep::gui {

/// Where the curve is: the plot, and what its edges mean.
struct MemoryFrame {
  QRectF plot;
  TimeAxis axis;         // as wide as the plot
  std::int64_t top = 1;  // bytes at the upper edge of the plot
  double y_of(std::int64_t bytes) const {
    return plot.bottom() - plot.height() * static_cast<double>(bytes) / static_cast<double>(top);
  }
};
/// The pixels and the time of the timeline, which the curve shares if they fit.
struct SharedAxis {
  TimeAxis axis;
  double left = 0;
};
/// The frame for `model` and for `others`, which are drawn on the same axes. The capacity is in it
/// if it is not far above the peak. Time is that of `shared`, if it shows a part of the step;
/// otherwise the step fills the plot.
MemoryFrame memory_frame(const MemoryModel& model, const std::vector<MemoryModel>& others,
                         QRectF rect, const TextSize& text, const SharedAxis& shared = {});

/// Draws the bytes of each kind, stacked in the order of BufferKind. Of samples that share a pixel,
/// the one with the largest total is drawn. Above the arena lie bands of what the process keeps
/// beside it. The peak is marked, the capacity is a line, and what lies above it is red. The
/// totals of `others` are lines on the same scale, from the same begin of the step.
DisplayList draw_memory_curve(const MemoryModel& model, const std::vector<MemoryModel>& others,
                              const MemoryFrame& frame, const TextSize& text);

/// Draws every block from its begin to its end, at the addresses where it lies: what shares a line
/// is never in use at once, and what is white is free. Of very many, those of most bytes are drawn,
/// and a line says how many are not.
DisplayList draw_blocks(const MemoryModel& model, const MemoryFrame& frame, const TextSize& text);
/// The block that draw_blocks() has under a point, drawn or not; null if there is none.
const BufferLife* block_at(const MemoryModel& model, const MemoryFrame& frame, QPointF point);

/// Draws a legend of the kinds that are in use at `t`, and of what is beside the arena, with bytes.
DisplayList draw_memory_legend(const MemoryModel& model, SimTime t, QRectF rect,
                               const TextSize& text);

/// The arena as lines of equally many bytes, with address 0 at the top left. Buffers that are freed
/// next have an outline; holes are hatched.
struct ArenaPicture {
  ArenaState state;
  QRectF rect;
  int lines = 1;
  double line_height = 0;
  std::int64_t bytes_per_line() const { return (state.arena + lines - 1) / lines; }
  /// The live buffer under a point; null if there is none.
  const BufferLife* at(QPointF point) const;
};
ArenaPicture arena_picture(const MemoryModel& model, SimTime t, QRectF rect, const TextSize& text);
DisplayList draw_arena(const MemoryModel& model, const ArenaPicture& picture, const TextSize& text);

}  // namespace lockstep::gui
