// Animation: a step as it plays, in a file that needs nothing to be played: an SVG that moves by
// itself, or an animated PNG.
#pragma once

#include <QFont>
#include <QSizeF>
#include <string>
#include <vector>

#include "core/base/result.hpp"
#include "gui/draw/display_list.hpp"
#include "gui/draw/theme.hpp"
#include "gui/model/run/run_view.hpp"

namespace lockstep::gui {

inline constexpr int kFramesPerSecond = 12;

struct Animation {
  QSizeF size;
  double seconds = 0;  // of all frames together; they repeat for ever
  std::vector<DisplayList> frames;
};

/// The step from its begin to its end: what is said of each moment, the ranks as Play shows them,
/// and the timeline as far as it has come. The last frame stays for two seconds. It is as wide as
/// `size`, and at most as high.
Animation animate(const RunView& run, const StepAnalysis& step, QSizeF size, double seconds,
                  const TextSize& text);

/// The animation as one SVG picture without script (SMIL). What several frames in a row show alike
/// is written once.
std::string moving_svg(const Animation& animation, const std::string& title, const Theme& theme,
                       const QFont& font);

/// The animation as an APNG (PNG with the chunks acTL, fcTL and fdAT), at `scale` pixels for a unit
/// of its size. A frame holds only what differs from the one before. Programs that do not know
/// animated PNGs show the first frame.
std::string animated_png(const Animation& animation, double scale, const Theme& theme,
                         const QFont& font);

}  // namespace lockstep::gui
