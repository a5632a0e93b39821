#include "core/validation/plot.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <map>

namespace lockstep {
namespace {

constexpr double kSide = 640;                          // side of the diagram, px
constexpr double kLeft = 70, kTop = 20, kBottom = 50;  // margins around it
constexpr double kLegend = 150;                        // width of the legend to its right

std::string number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.2f", value);
  return text.data();
}

std::string short_number(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.4g", value);
  return text.data();
}

std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) {
    if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else {
      result += c;
    }
  }
  return result;
}

/// The i-th colour. Colours go round the colour wheel so that neighbours in the list are far apart.
std::string color(std::size_t i) {
  const std::size_t hue = (i * 137) % 360;  // the golden angle
  const std::size_t light = i % 2 == 0 ? 42 : 58;
  return "hsl(" + std::to_string(hue) + ",70%," + std::to_string(light) + "%)";
}

/// The range of both axes: whole decades that contain all values.
struct Axis {
  double low = 0, high = 1;  // log10
  double at(double value) const { return (std::log10(value) - low) / (high - low) * kSide; }
};

Axis axis_of(const std::vector<PlotPoint>& points) {
  double least = 1e300, most = 0;
  for (const PlotPoint& p : points) {
    least = std::min({least, p.measured, p.predicted});
    most = std::max({most, p.measured, p.predicted});
  }
  if (points.empty()) return {};
  Axis axis{std::floor(std::log10(least)), std::ceil(std::log10(most))};
  if (axis.high == axis.low) axis.high += 1;
  return axis;
}

std::string line(double x1, double y1, double x2, double y2, const std::string& style) {
  return "<line x1=\"" + number(x1) + "\" y1=\"" + number(y1) + "\" x2=\"" + number(x2) +
         "\" y2=\"" + number(y2) + "\" " + style + "/>\n";
}

std::string text(double x, double y, const std::string& anchor, const std::string& content) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\" text-anchor=\"" + anchor + "\">" +
         escaped(content) + "</text>\n";
}

}  // namespace

std::string plot_svg(const std::vector<PlotPoint>& points, const std::string& quantity,
                     const std::string& unit) {
  const Axis axis = axis_of(points);
  const double bottom = kTop + kSide, right = kLeft + kSide;
  const auto x = [&](double value) { return kLeft + axis.at(value); };
  const auto y = [&](double value) { return bottom - axis.at(value); };
  const double low = std::pow(10, axis.low), high = std::pow(10, axis.high);

  std::string svg = "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" + number(right + kLegend) +
                    "\" height=\"" + number(bottom + kBottom) +
                    "\" font-family=\"sans-serif\" font-size=\"12\">\n";
  svg += "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  svg += "<clipPath id=\"diagram\"><rect x=\"" + number(kLeft) + "\" y=\"" + number(kTop) +
         "\" width=\"" + number(kSide) + "\" height=\"" + number(kSide) + "\"/></clipPath>\n";
  svg += "<polygon class=\"band\" clip-path=\"url(#diagram)\" fill=\"#e8f0e8\" points=\"" +
         number(x(low)) + "," + number(y(low * 1.1)) + " " + number(x(high)) + "," +
         number(y(high * 1.1)) + " " + number(x(high)) + "," + number(y(high * 0.9)) + " " +
         number(x(low)) + "," + number(y(low * 0.9)) + "\"/>\n";
  for (double decade = axis.low; decade <= axis.high; ++decade) {
    const double value = std::pow(10, decade);
    const std::string style = "stroke=\"#ddd\"";
    svg += line(x(value), kTop, x(value), bottom, style);
    svg += line(kLeft, y(value), right, y(value), style);
    svg += text(x(value), bottom + 16, "middle", short_number(value) + " " + unit);
    svg += text(kLeft - 6, y(value) + 4, "end", short_number(value) + " " + unit);
  }
  svg += line(x(low), y(low), x(high), y(high), "stroke=\"#888\"");
  svg += text(kLeft + kSide / 2, bottom + 38, "middle", "measured " + quantity);
  svg += "<text transform=\"translate(14," + number(kTop + kSide / 2) +
         ") rotate(-90)\" text-anchor=\"middle\">" + escaped("simulated " + quantity) + "</text>\n";

  std::vector<std::string> order;
  std::map<std::string, std::string> colors;
  for (const PlotPoint& p : points) {
    if (colors.emplace(p.series, color(order.size())).second) order.push_back(p.series);
    svg += "<circle cx=\"" + number(x(p.measured)) + "\" cy=\"" + number(y(p.predicted)) +
           "\" r=\"3\" fill=\"" + colors[p.series] + "\" fill-opacity=\"0.75\"><title>" +
           escaped(p.label) + "</title></circle>\n";
  }
  double row = kTop + 12;
  for (const std::string& series : order) {
    svg += "<rect x=\"" + number(right + 12) + "\" y=\"" + number(row - 9) +
           "\" width=\"10\" height=\"10\" fill=\"" + colors[series] + "\"/>\n";
    svg += text(right + 28, row, "start", series);
    row += 18;
  }
  return svg + "</svg>\n";
}

}  // namespace lockstep
