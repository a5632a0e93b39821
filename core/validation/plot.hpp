// Plot: predictions over measurements as SVG, with logarithmic axes.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct PlotPoint {
  std::string series;                  // points of one series have the same colour
  std::string label;                   // shown when the mouse is over the point
  double measured = 0, predicted = 0;  // above 0
};

/// A square diagram with the diagonal, a band of 10 % around it, decades as a grid, one colour per
/// series in the order in which they occur, and a legend. The same points give the same bytes.
std::string plot_svg(const std::vector<PlotPoint>& points, const std::string& quantity,
                     const std::string& unit);

}  // namespace lockstep
