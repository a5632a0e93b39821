#include "gui/draw/timeline_drawing.hpp"

#include <fstream>
#include <numeric>
#include <sstream>

#include "tests/catch.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

using test::kMs;

constexpr TextSize kText{7, 16};

/// Spans that begin before the window ends and end after it begins.
std::size_t spans_in(const Lane& lane, const TimeAxis& axis) {
  std::size_t count = 0;
  for (const LaneSegment& segment : lane.segments) {
    for (const Span& s : segment.spans()) count += s.end > axis.begin && s.begin < axis.end;
  }
  return count;
}

std::size_t stands_for(const DisplayList& list) {
  return std::accumulate(list.fills.begin(), list.fills.end(), std::size_t{0},
                         [](std::size_t sum, const Fill& f) { return sum + f.stands_for; });
}

TEST_CASE("a span is drawn where its time is, with its letter and number", "[gui][draw]") {
  Trace trace = test::empty_trace(1);
  trace.spans = {test::span(0, 6, 10 * kMs, 30 * kMs), test::span(0, 7, 30 * kMs, 60 * kMs)};
  const RunPtr run = make_run("two spans", std::move(trace));
  DisplayList list;
  draw_lane(list, *run, run->lanes.all()[0], {0 * kMs, 100 * kMs, 1000}, {50, 10, 1000, 20}, kText);
  CHECK(print(list) ==
        "fill 150.0 10.0 500.0 20.0 idle hatch1\n"
        "fill 150.0 10.0 199.0 20.0 F spans=1\n"
        "fill 350.0 10.0 299.0 20.0 B spans=1\n"
        "text 150.0 10.0 200.0 20.0 F \"F3\"\n"
        "text 350.0 10.0 300.0 20.0 B \"B3\"\n");
}

TEST_CASE(
    "a pass is labelled with the version of the weights that it reads, where there are several",
    "[gui][draw]") {
  const std::string file =
      std::string(LOCKSTEP_SOURCE_DIR) + "/scenarios/tiny/llama-pipedream3.toml";
  std::ostringstream text;
  text << std::ifstream(file).rdbuf();
  const Cancelled never{false};
  const auto labels = [&](const std::vector<std::string>& overrides) {
    const RunPtr run = simulate(text.str(), file, overrides, never).run;
    REQUIRE(run);
    DisplayList list;
    const double width = 3000;
    draw_lane(list, *run, *run->lanes.main_of_rank(1),
              {run->lanes.begin(), run->lanes.end(), width}, {0, 0, width, 20}, kText);
    return print(list);
  };
  const std::string pipedream = labels({});
  CHECK_THAT(pipedream, ContainsSubstring("\"F1 v0\"") && ContainsSubstring("\"F5 v4\""));
  CHECK_THAT(pipedream, !ContainsSubstring("\"O5 v"));
  const std::string drained = labels({"parallelism.pipeline_parallel_schedule=1F1B"});
  CHECK_THAT(drained, ContainsSubstring("\"F5") && !ContainsSubstring(" v"));
}

TEST_CASE("every kernel is drawn above idle time in any window, also where ranks are out of step",
          "[gui][draw]") {
  Trace trace = test::empty_trace(2);
  for (int step = 0; step < 4; ++step) {
    for (Rank rank = 0; rank < 2; ++rank) {
      for (int i = 0; i < 5; ++i) {  // rank 0 begins step 1 long before rank 1 ends step 0
        const SimTime length = rank == 0 ? 18 * kMs : 30 * kMs;
        const SimTime begin = (5 * step + i) * (length + 2 * kMs);
        Span kernel = test::span(rank, i, begin, begin + length);
        kernel.step = step;
        trace.spans.push_back(kernel);
      }
    }
  }
  const RunPtr run = make_run("out of step", std::move(trace));
  for (Rank rank = 0; rank < 2; ++rank) {
    const Lane& lane = *run->lanes.main_of_rank(rank);
    for (int begin = 0; begin < 640; begin += 7) {
      for (const int length : {20, 90, 640}) {
        INFO("rank " << rank << ", from " << begin << " ms, " << length << " ms long");
        const TimeAxis axis{begin * kMs, (begin + length) * kMs, 1000};
        DisplayList list;
        draw_lane(list, *run, lane, axis, {0, 0, 1000, 20}, kText);
        CHECK(stands_for(list) == spans_in(lane, axis));
        for (std::size_t i = 0; i < list.fills.size(); ++i) {
          if (list.fills[i].stands_for == 0) continue;
          for (std::size_t above = i + 1; above < list.fills.size(); ++above) {
            const Fill &kernel = list.fills[i], &other = list.fills[above];
            const bool hidden = other.ink == Ink::Idle && other.width > 0.01F &&
                                other.x + other.width > kernel.x + 0.01F &&
                                kernel.x + kernel.width > other.x + 0.01F;
            CHECK(!hidden);
          }
        }
      }
    }
  }
}

TEST_CASE("a transfer that waits for its peer is a thread, then a box", "[gui][draw]") {
  Trace trace = test::empty_trace(1);
  trace.spans = {{0, OpId{50}, 0, 10 * kMs, 40 * kMs, 60 * kMs}};
  const RunPtr run = make_run("waiting", std::move(trace));
  DisplayList list;
  draw_lane(list, *run, run->lanes.all()[0], {0 * kMs, 100 * kMs, 1000}, {0, 0, 1000, 20}, kText);
  CHECK(print(list) ==
        "fill 100.0 0.0 500.0 20.0 idle hatch1\n"  // the rank has no other lane
        "fill 100.0 9.0 300.0 2.0 AG\n"
        "fill 400.0 0.0 199.0 20.0 AG hatch1 spans=1\n"
        "text 400.0 0.0 200.0 20.0 AG \"AG L2\"\n");
}

TEST_CASE("narrow neighbours are folded into one box that looks like what takes most time",
          "[gui][draw]") {
  Trace trace = test::empty_trace(1);
  // 2000 ps on 1000 pixels: two picoseconds each, cells of four.
  trace.spans = {
      test::span(0, 0, SimTime{100}, SimTime{100}), test::span(0, 1, SimTime{100}, SimTime{101}),
      test::span(0, 0, SimTime{101}, SimTime{101}), test::span(0, 2, SimTime{200}, SimTime{300})};
  const RunPtr run = make_run("narrow", std::move(trace));
  DisplayList list;
  draw_lane(list, *run, run->lanes.all()[0], {SimTime{0}, SimTime{2000}, 1000}, {0, 0, 1000, 8},
            kText);
  CHECK(print(list) ==
        "fill 50.0 0.0 100.0 8.0 idle hatch1\n"
        "fill 50.0 0.0 0.5 8.0 B spans=3\n"
        "fill 50.5 0.0 49.5 8.0 background\n"
        "fill 50.5 0.0 49.5 8.0 idle hatch5\n"
        "fill 100.0 0.0 49.0 8.0 F spans=1\n");
}

TEST_CASE("layers of one microbatch share a label until each has room for its own", "[gui][draw]") {
  Trace trace = test::empty_trace(1);
  for (int layer = 0; layer < 3; ++layer) {
    TraceOp op = trace.roles[0].ops[0];
    op.layer = layer;
    trace.roles[0].ops.set({layer}, op);
    trace.spans.push_back(test::span(0, layer, layer * 10 * kMs, (layer + 1) * 10 * kMs));
  }
  const RunPtr run = make_run("layers", std::move(trace));
  const auto words = [&](SimTime length) {
    DisplayList list;
    draw_lane(list, *run, run->lanes.all()[0], {0 * kMs, length, 1000}, {0, 0, 1000, 20}, kText);
    std::string all;
    for (const Text& t : list.texts) all += (all.empty() ? "" : ", ") + t.text;
    return all;
  };
  CHECK(words(30 * kMs) == "F0 L0, F0 L1, F0 L2");
  CHECK(words(1000 * kMs) == "F0");
  CHECK(words(10'000 * kMs).empty());
}

TEST_CASE("layers without room are one box, which says which layers it stands for", "[gui][draw]") {
  Trace trace = test::empty_trace(1);
  for (int layer = 0; layer < 8; ++layer) {
    TraceOp op = trace.roles[0].ops[0];
    op.layer = layer;
    trace.roles[0].ops.set({layer}, op);
    trace.spans.push_back(test::span(0, layer, layer * 10 * kMs, (layer + 1) * 10 * kMs));
  }
  const RunPtr run = make_run("layers", std::move(trace));
  const auto boxes = [&](SimTime length) {
    DisplayList list;
    draw_lane(list, *run, run->lanes.all()[0], {0 * kMs, length, 1000}, {0, 0, 1000, 20}, kText);
    std::erase_if(list.fills, [](const Fill& f) { return f.stands_for == 0; });
    return list;
  };
  const DisplayList far = boxes(500 * kMs);  // 20 pixels a layer
  REQUIRE(far.fills.size() == 1);
  CHECK(far.fills[0].stands_for == 8);
  CHECK(far.fills[0].width == Approx(159));
  REQUIRE(far.texts.size() == 1);
  CHECK(far.texts[0].text == "F0 · L0–7");
  CHECK(boxes(80 * kMs).fills.size() == 8);  // 125 pixels a layer
}

TEST_CASE("narrow spans are blended by their shares of time, idle time included", "[gui][draw]") {
  Trace trace = test::empty_trace(1);
  // In every cell of 2 pixels, 200 ps: 90 of forward, 60 of backward, 50 of nothing; the longest
  // span is backward's.
  for (int i = 0; i < 300; ++i) {
    const SimTime t{200 * i};
    for (int k = 0; k < 3; ++k) {
      trace.spans.push_back(test::span(0, 0, t + SimTime{30 * k}, t + SimTime{30 * (k + 1)}));
    }
    trace.spans.push_back(test::span(0, 1, t + SimTime{90}, t + SimTime{150}));
  }
  const RunPtr run = make_run("narrow", std::move(trace));
  DisplayList list;
  draw_lane(list, *run, run->lanes.all()[0], {SimTime{0}, SimTime{100'000}, 1000}, {0, 0, 1000, 8},
            kText);
  int cells = 0;
  for (const Fill& f : list.fills) {
    if (f.stands_for != 4) continue;
    ++cells;
    CHECK(f.ink == ink_of(Look::Forward));
    CHECK(f.blend.other == ink_of(Look::Backward));
    CHECK(f.blend.of_other == 102);  // 60 of 150, of 255
    CHECK(f.blend.idle == 0);        // the box ends where the last span does
  }
  CHECK(cells == 300);
}

TEST_CASE("bubbles are drawn where nothing computes, with the name of their cause", "[gui][draw]") {
  Trace trace = test::empty_trace(2);
  trace.spans = {test::span(0, 0, 0 * kMs, 40 * kMs), test::span(1, 1, 40 * kMs, 100 * kMs)};
  const RunPtr run = make_run("two stages", std::move(trace));
  DisplayList list;
  draw_lane(list, *run, *run->lanes.find(1, 0), {0 * kMs, 100 * kMs, 1000}, {0, 0, 1000, 20},
            kText);
  REQUIRE(run->steps.size() == 1);
  std::string words;
  for (const Text& t : list.texts) words += t.text + ";";
  CHECK(words == "warm-up;B0;");
  // The hatch of the bubble ends where the span begins.
  const auto hatch = std::find_if(list.fills.begin() + 1, list.fills.end(),
                                  [](const Fill& f) { return f.ink == Ink::Idle; });
  REQUIRE(hatch != list.fills.end());
  CHECK(hatch->x == 0);
  CHECK(hatch->width == Approx(400));
}

TEST_CASE("every span of a window is drawn alone or counted in one box", "[gui][draw]") {
  const RunPtr run = make_run("random", test::random_trace(3, 20'000, 11));
  const SimTime whole = run->lanes.end() - run->lanes.begin();
  std::mt19937 random(5);
  for (int round = 0; round < 200; ++round) {
    const auto pick = [&](std::int64_t below) {
      return SimTime{static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below))};
    };
    const SimTime begin = pick(whole.count());
    const SimTime length = pick(std::max<std::int64_t>(whole.count() >> (random() % 20), 2));
    const TimeAxis axis{begin, begin + length + SimTime{1}, 1.0 + random() % 1600};
    for (const Lane& lane : run->lanes.all()) {
      DisplayList list;
      draw_lane(list, *run, lane, axis, {0, 0, axis.width, 10}, kText);
      REQUIRE(stands_for(list) == spans_in(lane, axis));
      // Never more boxes than pixels can show: a cell is at least a pixel or a picosecond wide.
      REQUIRE(list.fills.size() <= static_cast<std::size_t>(3 * axis.width) + 8);
      float right = -1e9F;
      for (const Fill& f : list.fills) {
        if (f.stands_for == 0) continue;
        REQUIRE(f.x + 0.51F >= right);  // boxes do not overlap (but for rounding of long axes)
        right = f.x + f.width;
      }
    }
  }
}

TEST_CASE("panning by whole pixels does not change what is folded with what", "[gui][draw]") {
  const RunPtr run = make_run("random", test::random_trace(1, 20'000, 3));
  const Lane& lane = run->lanes.all().front();
  const SimTime whole = run->lanes.end() - run->lanes.begin();
  const TimeAxis axis{SimTime{0}, SimTime{whole.count() / 4}, 800};
  const auto boxes = [&](const TimeAxis& a) {
    DisplayList list;
    draw_lane(list, *run, lane, a, {0, 0, a.width, 10}, kText);
    std::vector<std::uint32_t> counts;
    for (const Fill& f : list.fills) {
      if (f.x > 420 && f.x < 780) counts.push_back(f.stands_for);
    }
    return counts;
  };
  const auto still = boxes(axis);
  DisplayList moved;
  const TimeAxis right = axis.panned(100);
  draw_lane(moved, *run, lane, right, {0, 0, right.width, 10}, kText);
  std::vector<std::uint32_t> counts;
  for (const Fill& f : moved.fills) {
    if (f.x > 320.0 && f.x < 680.0) counts.push_back(f.stands_for);
  }
  // The window's edges are cut to whole pixels; what lies between is the same list.
  REQUIRE(still.size() > 20);
  CHECK(std::search(counts.begin(), counts.end(), still.begin() + 2, still.end() - 2) !=
        counts.end());
}

TEST_CASE("the picture has a row per lane under a ruler, and points find spans", "[gui][draw]") {
  Trace trace = test::empty_trace(2);
  trace.spans = {test::span(0, 0, 0 * kMs, 20 * kMs), test::span(0, 48, 0 * kMs, 10 * kMs),
                 test::span(1, 1, 50 * kMs, 100 * kMs)};
  const RunPtr run = make_run("picture", std::move(trace));
  const TimelineLayout layout = lay_out(*run, {}, {20, 22, 14});
  const TimelineFrame frame{{1100, 300}, 100, 24, 0, {0 * kMs, 100 * kMs, 1000}};
  const std::string picture = print(draw_timeline(*run, layout, frame, kText));
  CHECK_THAT(picture, ContainsSubstring("text 18.0 24.0 78.0 22.0 text \"rank …(pp0)\""));
  CHECK_THAT(picture, ContainsSubstring("\"gather\""));
  CHECK_THAT(picture, ContainsSubstring("\"40 ms\""));
  CHECK_THAT(picture, ContainsSubstring("idle hatch1"));

  CHECK(span_at(layout, frame, {200, 30}) == 0U);
  CHECK(span_at(layout, frame, {150, 50}) == 1U);
  CHECK_FALSE(span_at(layout, frame, {250, 50}));
  CHECK(span_at(layout, frame, {598, 65}) == 2U);  // within reach
  CHECK_FALSE(span_at(layout, frame, {590, 65}));
  CHECK_FALSE(span_at(layout, frame, {200, 200}));
  CHECK_FALSE(span_at(layout, frame, {50, 30}));  // the label
}

TEST_CASE("what is scrolled away is not drawn over what is pinned", "[gui][draw]") {
  const RunPtr run = make_run("random", test::random_trace(40, 20, 9));
  const TimelineLayout layout = lay_out(*run, toggled_pin({}, "rank 7"), {20, 22, 14});
  TimelineFrame frame{{1100, 300}, 100, 24, 0, {0 * kMs, run->lanes.end(), 1000}};
  frame.scroll = 33;
  const DisplayList list = draw_timeline(*run, layout, frame, kText);
  CHECK_THAT(print(list), !ContainsSubstring("\"rank 0 (pp0)\""));
  CHECK_THAT(print(list), !ContainsSubstring("\"rank 39 (pp39)\""));
  std::size_t in_pinned = 0;
  const double bottom = frame.rows_top(layout);
  for (const Fill& f : list.fills) {
    if (f.stands_for > 0 && f.y < bottom) {
      in_pinned += f.stands_for;
      CHECK(f.y + f.height <= bottom);
    }
  }
  CHECK(in_pinned == 20);
}

}  // namespace
}  // namespace lockstep::gui
