#include "gui/draw/timeline_overlay.hpp"

#include <algorithm>

#include "tests/catch.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

using test::kMs;

constexpr TextSize kText{7, 16};

struct Fixture {
  Fixture() {
    Trace trace = test::empty_trace(2);
    trace.spans = {test::span(0, 0, 0 * kMs, 40 * kMs), test::span(0, 48, 10 * kMs, 20 * kMs),
                   test::span(1, 1, 40 * kMs, 100 * kMs)};
    run = make_run("overlay", std::move(trace));
    layout = lay_out(*run, choice, {20, 22, 14});
  }
  RunPtr run;
  LayoutChoice choice;
  TimelineLayout layout;
  TimelineFrame frame{{1100, 300}, 100, 24, 0, {0 * kMs, 100 * kMs, 1000}};
  std::string picture(const TimelineOverlay& overlay) const {
    return print(draw_overlay(*run, layout, frame, kText, overlay));
  }
};

TEST_CASE("the cursor says its time", "[gui][draw]") {
  const Fixture f;
  TimelineOverlay overlay;
  overlay.cursor = 50 * kMs;
  CHECK_THAT(f.picture(overlay), ContainsSubstring("line 600.0 24.0 600.0 300.0 accent"));
  CHECK_THAT(f.picture(overlay), ContainsSubstring("\"50.0 ms\""));
  overlay.cursor = 500 * kMs;  // out of sight
  CHECK(f.picture(overlay).empty());
}

TEST_CASE("the cursor's time covers no part of a label of the ruler", "[gui][draw]") {
  const Fixture f;
  const auto ticks = ruler_ticks(*f.run, f.frame, kText);
  REQUIRE(ticks.size() > 4);
  for (int ms = 0; ms <= 100; ++ms) {
    TimelineOverlay overlay;
    overlay.cursor = ms * kMs;
    const DisplayList list = draw_overlay(*f.run, f.layout, f.frame, kText, overlay);
    REQUIRE(list.texts.size() == 1);
    for (const RulerTick& tick : ticks) {
      const auto& fills = list.fills;
      const bool hidden = std::any_of(fills.begin(), fills.end(), [&](const Fill& fill) {
        return fill.ink == Ink::Band && fill.x == Approx(tick.label.x()) &&
               fill.width == Approx(tick.label.width());
      });
      CHECK(hidden == tick.label.intersects(list.texts.front().rect));
    }
  }
}

TEST_CASE("an area covers the rows of its ranks and says how long it is", "[gui][draw]") {
  const Fixture f;
  TimelineOverlay overlay;
  overlay.cursor = SimTime{-1};
  overlay.area_begin = 10 * kMs;
  overlay.area_end = 30 * kMs;
  CHECK_THAT(f.picture(overlay), ContainsSubstring("fill 200.0 24.0 200.0 276.0 wash"));
  overlay.area_ranks = {1};
  CHECK_THAT(f.picture(overlay), ContainsSubstring("fill 200.0 60.0 200.0 22.0 wash"));
  CHECK_THAT(f.picture(overlay), ContainsSubstring("\"Δ 20 ms\""));
}

TEST_CASE("the selected span is outlined, in its rank's row where its own is folded",
          "[gui][draw]") {
  Fixture f;
  TimelineOverlay overlay;
  overlay.cursor = SimTime{-1};
  overlay.span = 1;
  CHECK_THAT(f.picture(overlay), ContainsSubstring("outline 199.0 47.0 102.0 12.0 accent"));
  f.choice = toggled_fold(f.choice, "rank 0");
  f.layout = lay_out(*f.run, f.choice, {20, 22, 14});
  CHECK_THAT(f.picture(overlay), ContainsSubstring("outline 199.0 25.0 102.0 20.0 accent"));
}

TEST_CASE("links are arrows from end to begin", "[gui][draw]") {
  const Fixture f;
  TimelineOverlay overlay;
  overlay.cursor = SimTime{-1};
  overlay.links = {{Link::Kind::Dependency, 0, 2}};
  CHECK_THAT(f.picture(overlay), ContainsSubstring("line 500.0 35.0 500.0 71.0 accent arrow"));
}

TEST_CASE("the critical path is a bar under its spans, and a step where it changes ranks",
          "[gui][draw]") {
  const Fixture f;
  TimelineOverlay overlay;
  overlay.cursor = SimTime{-1};
  overlay.critical_path = true;
  REQUIRE_FALSE(f.run->steps.front().path.empty());
  SimTime covered{};
  for (const PathSegment& s : f.run->steps.front().path) covered += s.length();
  CHECK(covered == 100 * kMs);
  CHECK_THAT(f.picture(overlay), ContainsSubstring("fill 500.0 77.0 600.0 3.0 fault"));
}

TEST_CASE("rulers snap to the edges of the row's spans, within reach", "[gui][draw]") {
  const Fixture f;
  CHECK(snap(*f.run, f.layout, f.frame, {497, 35}, 7) == 40 * kMs);
  CHECK(snap(*f.run, f.layout, f.frame, {303, 52}, 7) == 20 * kMs);
  CHECK_FALSE(snap(*f.run, f.layout, f.frame, {350, 35}, 7));
  CHECK(snap(*f.run, f.layout, f.frame, {98, 200}, 7) == 0 * kMs);  // no row: the run's begin
}

}  // namespace
}  // namespace lockstep::gui
