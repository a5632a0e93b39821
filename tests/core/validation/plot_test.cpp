#include "core/validation/plot.hpp"

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

int count(const std::string& text, const std::string& part) {
  int n = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
  return n;
}

}  // namespace

TEST_CASE("every point stands at the logarithms of its times", "[validation]") {
  // One decade, 0.1 to 1: a diagram of 640 px whose left is at 70 and whose bottom is at 660.
  const std::string svg =
      plot_svg({{"a", "first", 0.1, 1}, {"a", "middle", 0.31622776601683794, 0.31622776601683794}},
               "step time", "s");
  CHECK_THAT(svg, ContainsSubstring("<circle cx=\"70.00\" cy=\"20.00\""));
  CHECK_THAT(svg, ContainsSubstring("<circle cx=\"390.00\" cy=\"340.00\""));
  CHECK_THAT(svg, ContainsSubstring("measured step time"));
  CHECK(svg.starts_with("<svg"));
  CHECK(svg.ends_with("</svg>\n"));
  CHECK(count(svg, "class=\"band\"") == 1);
}

TEST_CASE("series have a colour and a line in the legend each, labels are escaped",
          "[validation]") {
  const std::string svg =
      plot_svg({{"b", "x < y & z", 1, 2}, {"a", "", 2, 3}, {"b", "", 5, 5}}, "time", "ms");
  CHECK(count(svg, "<circle") == 3);
  CHECK(count(svg, "width=\"10\" height=\"10\"") == 2);
  CHECK_THAT(svg, ContainsSubstring("x &lt; y &amp; z"));
  CHECK(svg.find(">b</text>") < svg.find(">a</text>"));
  CHECK(plot_svg({}, "time", "s").find("<circle") == std::string::npos);
}
