#include "gui/draw/play_drawing.hpp"

#include <QLineF>
#include <algorithm>

#include "gui/draw/wrapped_text.hpp"
#include "tests/catch.hpp"
#include "tests/gui/simulated.hpp"
#include "tests/gui/traces.hpp"

namespace lockstep::gui {
namespace {

const QRectF kRect(0, 0, 800, 400);

using test::simulated;

TEST_CASE("stages of a pipeline stand side by side, their ranks below each other", "[gui][draw]") {
  const RunPtr run = simulated("tiny/gpt2-fsdp2-1f1b2.toml");
  const Stage stage = set_stage(*run, run->steps.front(), kRect, {});
  REQUIRE(stage.ranks == std::vector<Rank>{0, 1, 2, 3});
  CHECK(stage.box_of(0)->left() == stage.box_of(1)->left());
  CHECK(stage.box_of(0)->bottom() < stage.box_of(1)->top());
  CHECK(stage.box_of(0)->right() < stage.box_of(2)->left());
  CHECK(stage.box_of(0)->top() == stage.box_of(2)->top());
  for (const QRectF& box : stage.boxes) {
    CHECK(kRect.contains(box));
    CHECK_FALSE(box.intersects(stage.strip));
  }
  CHECK(stage.box_of(17) == nullptr);
}

TEST_CASE("a message is a token that goes from its sender's box to its receiver's", "[gui][draw]") {
  const RunPtr run = simulated("tiny/gpt2-fsdp2-1f1b2.toml");
  const StepAnalysis& step = run->steps.front();
  const Stage stage = set_stage(*run, step, kRect, {});
  int messages = 0;
  for (const Span& span : step.graph.spans()) {
    if (run->lanes.look(span) != Look::Send || span.end <= span.active) continue;
    for (int percent : {10, 90}) {
      const SimTime t = span.active + (span.end - span.active) * percent / 100;
      const DisplayList list = draw_play(*run, step, stage, t, {});
      for (const Flight& flight : in_flight(step.graph, t)) {
        if (!flight.message) continue;
        ++messages;
        // Stages stand side by side: from one box's edge to the other's, half way up.
        const QRectF &a = *stage.box_of(flight.ranks[0]), &b = *stage.box_of(flight.ranks[1]);
        const bool right = a.left() < b.left();
        const double from = right ? a.right() : a.left(), to = right ? b.left() : b.right();
        const double least = kLeastFlight * to_seconds(step.graph.makespan()).v;
        const double done = to_seconds(t - flight.begin).v /
                            std::max(to_seconds(flight.end - flight.begin).v, least);
        const QPointF at(from + (to - from) * done, a.center().y());
        CHECK(std::count_if(list.fills.begin(), list.fills.end(), [&](const Fill& fill) {
                const QPointF center(fill.x + fill.width / 2, fill.y + fill.height / 2);
                return fill.width == 12 && QLineF(center, at).length() < 0.01;
              }) >= 1);
        CHECK((flight.done > 0 && flight.done < 1));
      }
    }
  }
  CHECK(messages >= 24);  // two ranks per stage, four microbatches, forward or backward, twice
}

TEST_CASE("a message that nobody could see is shown for a sixtieth of the step", "[gui][draw]") {
  const RunPtr run = simulated("lessons/pipeline.toml");
  const StepAnalysis& step = run->steps.front();
  const Stage stage = set_stage(*run, step, kRect, {});
  const auto tokens = [&](SimTime t) {
    const DisplayList list = draw_play(*run, step, stage, t, {});
    return std::count_if(list.fills.begin(), list.fills.end(),
                         [](const Fill& fill) { return fill.width == 12 && fill.height == 12; });
  };
  const Span first = *std::find_if(step.graph.spans().begin(), step.graph.spans().end(),
                                   [&](const Span& s) { return run->lanes.look(s) == Look::Send; });
  const SimTime least = step.graph.makespan() / 60;
  REQUIRE(first.end - first.active < least / 10);
  CHECK(tokens(first.active - SimTime{1}) == 0);
  CHECK(tokens(first.active + least / 2) == 1);
  CHECK(tokens(first.active + least + least / 10) == 0);
}

TEST_CASE("ranks that do the same have boxes of their own where there are few", "[gui][draw]") {
  const RunPtr run = simulated("lessons/ddp.toml");
  const StepAnalysis& step = run->steps.front();
  REQUIRE(step.graph.ranks().size() == 1);
  const Stage stage = set_stage(*run, step, QRectF(0, 0, 1000, 300), {});
  REQUIRE(stage.ranks.size() == 8);
  // What a narrow box says is broken into lines that fit it.
  const auto& bubbles = step.bubbles.list;
  const auto exposed = std::find_if(bubbles.begin(), bubbles.end(), [](const Bubble& bubble) {
    return bubble.cause == BubbleCause::Communication;
  });
  REQUIRE(exposed != bubbles.end());
  const SimTime then = exposed->begin + exposed->length() / 2;
  const DisplayList list = draw_play(*run, step, stage, then, {});
  CHECK(std::count_if(list.texts.begin(), list.texts.end(),
                      [](const Text& t) { return t.text == "communication"; }) == 8);
  // The ring closes below the boxes, and no way crosses a box.
  for (Rank rank = 0; rank < 8; ++rank) {
    const auto way = way_between(stage, rank, (rank + 1) % 8);
    CHECK(way.size() == (rank == 7 ? 4 : 2));
    for (std::size_t i = 1; i < way.size(); ++i) {
      for (const QRectF& box : stage.boxes) {
        const QPointF middle = (way[i - 1] + way[i]) / 2;
        CHECK_FALSE(box.adjusted(1, 1, -1, -1).contains(middle));
      }
    }
  }
}

TEST_CASE("boxes of hundreds of ranks have colours, a height, and their place in the picture",
          "[gui][draw]") {
  Trace trace = test::empty_trace(512);
  for (Rank rank = 0; rank < 512; ++rank) {
    trace.rank_labels[rank] =
        "rank " + std::to_string(rank) + " (pp" + std::to_string(rank / 128) + ")";
    const SimTime begin = test::kMs * (rank % 7);
    trace.spans.push_back(test::span(rank, 0, begin, begin + test::kMs * 9));
  }
  const RunPtr run = make_run("many", std::move(trace));
  const StepAnalysis& step = run->steps.front();
  const TextSize text{7, 16, {}};
  const QRectF rect(0, 50, 900, 180);
  const Stage stage = set_stage(*run, step, rect, text);
  REQUIRE(stage.boxes.size() == 512);
  for (const QRectF& box : stage.boxes) {
    CHECK(box.height() > 0);
    CHECK(rect.contains(box));
  }
  const DisplayList list = draw_play(*run, step, stage, test::kMs * 8, text);
  CHECK(list.outlines.empty());  // they hid what the boxes say
  CHECK(std::any_of(list.fills.begin(), list.fills.end(), [&](const Fill& fill) {
    return fill.ink == ink_of(Look::Forward) && fill.y < stage.strip.top();
  }));
}

TEST_CASE("tokens of rings do not cover ranks whose boxes are lower than they", "[gui][draw]") {
  const RunPtr run = simulated("tensor-parallel/llama2-70b-tp8-pp4-dp2-64xh100.toml",
                               {"what_if.jitter=0.05"});  // so that all 64 ranks have boxes
  const StepAnalysis& step = run->steps.front();
  const SimTime t = step.graph.begin() + step.graph.makespan() / 3;
  const auto tokens = [&](double height) {
    const Stage stage = set_stage(*run, step, QRectF(0, 0, 900, height), {7, 16, {}});
    REQUIRE(stage.boxes.size() == 64);
    const DisplayList list = draw_play(*run, step, stage, t, {7, 16, {}});
    return std::count_if(list.fills.begin(), list.fills.end(),
                         [](const Fill& fill) { return fill.width == 12 && fill.height == 12; });
  };
  int messages = 0, rings = 0;
  for (const Flight& flight : in_flight(step.graph, t, linger_at(step.graph, t))) {
    ++(flight.message ? messages : rings);
  }
  REQUIRE(rings > 0);
  CHECK(tokens(1500) > messages);
  CHECK(tokens(180) <= messages);
}

TEST_CASE("the utilization strip is empty at the begin, and as full as the step at the end",
          "[gui][draw]") {
  const RunPtr run = simulated("schedules/1f1b-p4-m8.toml");
  const StepAnalysis& step = run->steps.front();
  const Stage stage = set_stage(*run, step, kRect, {});
  const auto covered = [&](SimTime t) {  // by the background, from the cursor on
    double width = 0;
    for (const Fill& fill : draw_play(*run, step, stage, t, {}).fills) {
      const bool to_the_end = fill.x + fill.width > stage.strip.right() + 3;
      if (fill.ink == Ink::Background && to_the_end && fill.y >= stage.strip.top() - 1) {
        width += fill.width - 4;
      }
    }
    return width / static_cast<double>(stage.ranks.size()) / stage.strip.width();
  };
  CHECK(covered(step.graph.begin()) == Approx(1).margin(0.01));
  CHECK(covered(step.graph.end()) == Approx(0).margin(0.01));
  CHECK(covered(step.graph.begin() + step.graph.makespan() / 4) == Approx(0.75).margin(0.01));
}

TEST_CASE("words are broken at spaces, and say that there are more", "[gui][draw]") {
  const TextSize text{10, 16};
  CHECK(wrap("aa bb cc", 50, 3, text) == std::vector<std::string>{"aa bb", "cc"});
  CHECK(wrap("aa bb cc dd", 50, 1, text) == std::vector<std::string>{"aa bb …"});
  CHECK(wrap("a-long-word x", 50, 2, text) == std::vector<std::string>{"a-long-word", "x"});
  CHECK(wrap("", 50, 2, text).empty());
}

TEST_CASE("words of the picture do not lie on each other, whatever its size", "[gui][draw]") {
  const RunPtr run = simulated("lessons/three-dimensions.toml");  // eight ranks in two columns
  const StepAnalysis& step = run->steps.front();
  const TextSize text{7, 16, {}};
  for (const double height : {90.0, 130.0, 180.0, 250.0, 400.0}) {
    INFO(height);
    const QRectF rect(0, 50, 500, height);
    const Stage stage = set_stage(*run, step, rect, text);
    CHECK(stage.ranks.size() == (height < 200 ? 2u : 8u));  // those that do the same share a box
    for (const int percent : {0, 30, 60}) {
      const SimTime t =
          step.graph.begin() + (step.graph.end() - step.graph.begin()) * percent / 100;
      const DisplayList list = draw_play(*run, step, stage, t, text);
      for (std::size_t i = 0; i < list.texts.size(); ++i) {
        if (stage.strip.intersects(list.texts[i].rect)) continue;  // labels of spans
        for (std::size_t j = 0; j < i; ++j) {
          INFO(list.texts[i].text << " over " << list.texts[j].text);
          CHECK_FALSE(list.texts[i].rect.intersects(list.texts[j].rect));
        }
        CHECK(list.texts[i].rect.top() >= rect.top());
      }
    }
  }
}

}  // namespace
}  // namespace lockstep::gui
