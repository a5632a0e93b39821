// Plot: predictions against measurements as SVG, both axes logarithmic.
#pragma once

#include <string>
#include <vector>

namespace lockstep {

struct PlotPoint {
  std::string series;                  // points of one series share a colour
  std::string label;                   // shown under the mouse
  double measured = 0, predicted = 0;  // above 0
};

/// A square diagram with the diagonal, a band of 10 % around it, decades as grid, one colour per
/// series in the order of first appearance, and a legend. Same points, same bytes.
std::string plot_svg(const std::vector<PlotPoint>& points, const std::string& quantity,
                     const std::string& unit);

}  // namespace lockstep
