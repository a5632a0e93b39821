#include "core/analysis/timeline.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

using test::HandMade;

TEST_CASE("the timeline of 1F1B shows warm-up, steady state, cool-down and bubbles",
          "[core][analysis]") {
  // 2 stages, 3 microbatches, F 1 s and B 2 s: 12 s on 24 columns, two per second. Stage 1 begins
  // and ends one forward and one backward later and earlier: (p-1)(1 + 2) s idle on each rank.
  const HandMade m = test::pipeline(2, 3, 1, 2, true);
  CHECK(draw_timeline(m.trace, {24 + 8, 64}) ==
        "rank 0  F0F1....B0--F2B1--..B2--\n"
        "rank 1  ..F0B0--F1B1--F2B2--....\n"
        "        0                   12 s\n");
}

TEST_CASE("columns too narrow for numbers keep the letter of what fills them most",
          "[core][analysis]") {
  HandMade m = test::empty_world(1);
  for (int i = 0; i < 10; ++i) {
    test::add(m, 0, test::call(i < 5 ? Phase::F : Phase::B, 0, i % 5), "x", i, i, i + 0.9);
  }
  test::add(m, 0, test::call(Phase::O, -1, -1), "optimizer", 12, 12, 20);
  CHECK(draw_timeline(m.trace, {8 + 20, 64}) ==
        "rank 0  FFFFFBBBBB..OOOOOOOO\n"
        "        0               20 s\n");
}

TEST_CASE("ranks that others stand for are counted, not drawn", "[core][analysis]") {
  HandMade m = test::empty_world(3);
  for (const Rank rank : {0, 1, 2}) {
    test::add(m, rank, test::call(Phase::F, 0, 0), "forward", 0, 0, 3);
  }
  m.trace.same_as = {0, 0, 0};
  m.trace.spans = {m.trace.spans[0]};
  const std::string text = draw_timeline(m.trace);
  CHECK_THAT(text, ContainsSubstring("rank 0  F0-"));
  CHECK_THAT(text, !ContainsSubstring("rank 1"));
  CHECK_THAT(text, ContainsSubstring("2 more ranks do exactly what one of these does"));
}

TEST_CASE("every line of a timeline has the width asked for", "[core][analysis]") {
  const HandMade m = test::pipeline(4, 9, 0.37, 0.81, true);
  for (const int width : {40, 77, 100, 163}) {
    std::string text = draw_timeline(m.trace, {width, 64});
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t end = text.find('\n', at);
      CHECK(end - at == static_cast<std::size_t>(width));
      at = end + 1;
    }
  }
}

TEST_CASE("a trace without spans has no timeline", "[core][analysis]") {
  CHECK(draw_timeline(Trace{}).empty());
}

}  // namespace
}  // namespace lockstep
