// A training step as a picture (SVG): ranks against time, what their compute streams do.
#pragma once

#include <string>

#include "core/trace/trace.hpp"

namespace lockstep {

struct TimelinePicture {
  int width = 1000;    // px, of the time axis
  int row = 26;        // px, of a rank
  int max_ranks = 32;  // a remark counts those left out
};

/// Draws what draw_timeline() draws, with a colour for each kind of work and for the second of two
/// virtual stages a darker one. Blocks that are wide enough have their microbatch's number. The
/// same trace gives the same bytes. Empty without spans.
std::string timeline_svg(const Trace& trace, const TimelinePicture& picture = {});

}  // namespace lockstep
