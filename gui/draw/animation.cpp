#include "gui/draw/animation.hpp"

#include <algorithm>

#include "core/analysis/in_flight.hpp"
#include "core/format/format.hpp"
#include "gui/draw/play_drawing.hpp"
#include "gui/draw/wrapped_text.hpp"

namespace lockstep::gui {
namespace {

constexpr double kEndSeconds = 2;  // for which the last frame stays
constexpr int kWordLines = 3;
constexpr double kEdge = 8;
constexpr double kMostOfRow = 40;  // height of a rank's row of the timeline

}  // namespace

Animation animate(const RunView& run, const StepAnalysis& step, QSizeF size, double seconds,
                  const TextSize& text) {
  const double line = text.line_height;
  const double top = kEdge + (kWordLines + 1) * line + 4;
  Stage stage =
      set_stage(run, step, QRectF(0, top, size.width(), size.height() - top - kEdge), text);
  // The timeline takes the room that the boxes leave.
  stage.strip.setTop(stage.below + 2 * line);
  const double rows = static_cast<double>(stage.ranks.size()) * kMostOfRow;
  stage.strip.setHeight(std::min(size.height() - kEdge - stage.strip.top(), rows));
  size.setHeight(stage.strip.bottom() + kEdge);
  Animation animation{size, seconds, {}};
  const int count = std::max(2, static_cast<int>(seconds * kFramesPerSecond));
  const int moving = std::max(1, static_cast<int>((seconds - kEndSeconds) * kFramesPerSecond));
  for (int i = 0; i < count; ++i) {
    const double part = std::min(1.0, static_cast<double>(i) / moving);
    const SimTime t = step.graph.begin() + to_sim_time(part * to_seconds(step.graph.makespan()));
    DisplayList frame;
    frame.fill({0, 0, size.width(), size.height()}, Ink::Background);
    frame.texts.push_back({{kEdge, kEdge, size.width() - 2 * kEdge, line},
                           run.title + " · " + time_text(to_seconds(t - step.graph.begin())) +
                               " of " + time_text(to_seconds(step.graph.makespan())),
                           Ink::Text,
                           false,
                           Align::Left,
                           true});
    const auto words =
        wrap(caption(step.graph, step.bubbles, t), size.width() - 2 * kEdge, kWordLines, text);
    for (std::size_t w = 0; w < words.size(); ++w) {
      frame.text(
          {kEdge, kEdge + 2 + static_cast<double>(w + 1) * line, size.width() - 2 * kEdge, line},
          words[w]);
    }
    frame.append(draw_play(run, step, stage, t, text));
    animation.frames.push_back(std::move(frame));
  }
  return animation;
}

}  // namespace lockstep::gui
