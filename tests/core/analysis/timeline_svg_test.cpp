#include "core/analysis/timeline_svg.hpp"

#include <regex>

#include "backends/sim/sim_backend.hpp"
#include "core/lower/lower.hpp"
#include "core/scenario/scenario_file.hpp"
#include "tests/catch.hpp"
#include "tests/cli/command_line.hpp"

namespace lockstep {
namespace {

Trace pipeline() {
  const LoadedScenario loaded = parse_scenario(lockstep::test::kSynthetic, "a.toml", {});
  REQUIRE(loaded.ok());
  const Scenario& s = loaded.points.front().scenario;
  const Result<Program> program = lower(s);
  REQUIRE(program.ok());
  Result<RunResult> ran = SimBackend().run(*program, s.cluster, {});
  REQUIRE(ran.ok());
  return std::move(ran->trace);
}

/// The sum of the widths of the boxes of a colour, and their number.
std::pair<double, int> boxes(const std::string& svg, const std::string& color) {
  const std::regex box("width=\"([0-9.]+)\" height=\"[0-9.]+\" fill=\"" + color + "\"");
  double width = 0;
  int count = 0;
  for (std::sregex_iterator i(svg.begin(), svg.end(), box), end; i != end; ++i, ++count) {
    width += std::stod((*i)[1]);
  }
  return {width, count};
}

TEST_CASE("a picture of 1F1B has a box for every pass, as wide as the pass is long",
          "[core][analysis]") {
  const Trace trace = pipeline();
  const std::string svg = timeline_svg(trace);
  // 4 ranks, 8 microbatches, of 33 s on 1000 px; a box is 0.7 px narrower than its time. The legend
  // has one more of each.
  for (const auto& [color, seconds] : {std::pair{"#56b4e9", 1.0}, {"#7fcfb4", 2.0}}) {
    const auto [width, count] = boxes(svg, color);
    INFO(color);
    CHECK(count == 32 + 1);
    CHECK(std::abs(width - 12 - 32 * (seconds / 33 * 1000 - 0.7)) < 0.5);
  }
  CHECK_THAT(svg, ContainsSubstring(">33 s<"));
  CHECK_THAT(svg, ContainsSubstring(">7</text>"));  // the last microbatch
  CHECK(svg == timeline_svg(trace));
  CHECK(timeline_svg({}).empty());
}

TEST_CASE("a picture leaves out ranks beyond the most, says so, and escapes labels",
          "[core][analysis]") {
  Trace trace = pipeline();
  trace.rank_labels[0] = "a<b & c";
  const std::string svg = timeline_svg(trace, {.max_ranks = 1});
  CHECK_THAT(svg, ContainsSubstring("3 more ranks are not drawn"));
  CHECK_THAT(svg, ContainsSubstring("a&lt;b &amp; c"));
  CHECK(boxes(svg, "#56b4e9").second == 8 + 1);
}

}  // namespace
}  // namespace lockstep
