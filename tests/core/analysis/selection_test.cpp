#include "core/analysis/selection.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

using test::add;
using test::call;
using test::empty_world;
using test::HandMade;
using test::meet;
using test::seconds;
using test::sort_spans;

TEST_CASE("a window counts the spans that run in it", "[core][analysis]") {
  HandMade m = empty_world(2);
  add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 4);
  add(m, 0, call(Phase::B, 0, 0), "backward", 4, 4, 10);
  add(m, 1, call(Phase::F, 0, 0), "forward", 1, 1, 3);
  meet(m, OpKind::AllReduce, Stream::Reduce, 0, {4, 10}, 12);
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const Selection s = select(step, seconds(2), seconds(11));
  CHECK(s.all.count == 5);
  CHECK(s.all.total == seconds(4 + 6 + 2 + 2 + 2));
  CHECK(s.all.waiting == seconds(6));
  CHECK(s.all.inside == seconds(2 + 6 + 1 + 1 + 1));
  const SpanStatistics& forward = s.by_kind.at("forward");
  CHECK(forward.count == 2);
  CHECK(forward.least == seconds(2));
  CHECK(forward.most == seconds(4));
  CHECK(forward.mean().v == Approx(3));
  CHECK(s.by_rank.at(0).count == 3);
  CHECK(s.by_rank.at(1).count == 2);
  // What only touches the window, or waits in it, does not run in it.
  CHECK(select(step, seconds(10), seconds(12)).all.count == 2);
  CHECK(select(step, seconds(4), seconds(10)).by_kind.count("all_reduce") == 0);
  CHECK(select(step, seconds(2), seconds(11), [&](SpanIndex i) {
          return step[i].rank == 1;
        }).all.count == 2);
}

TEST_CASE("percentiles are nearest-rank", "[core][analysis]") {
  HandMade m = empty_world(1);
  double t = 0;
  for (int i = 100; i >= 1; --i) {  // of 100, 99, ..., 1 s
    add(m, 0, call(Phase::F, 0, i), "forward", t, t, t + i);
    t += i;
  }
  const StepGraph step(m.trace, 0, &m.program);
  const SpanStatistics s = select(step, step.begin(), step.end()).all;
  CHECK(s.p50 == seconds(50));
  CHECK(s.p90 == seconds(90));
  CHECK(s.p99 == seconds(99));
  CHECK(s.most == seconds(100));
}

TEST_CASE("spans of no length count where they are", "[core][analysis]") {
  HandMade m = empty_world(1);
  add(m, 0, call(Phase::F, 0, 0), "forward", 1, 1, 1);
  add(m, 0, call(Phase::F, 0, 1), "forward", 1, 1, 3);
  const StepGraph step(m.trace, 0, &m.program);
  CHECK(select(step, seconds(1), seconds(2)).all.count == 2);
  CHECK(select(step, seconds(2), seconds(3)).all.count == 1);
  CHECK(select(step, seconds(0), seconds(1)).all == SpanStatistics{});
}

}  // namespace
}  // namespace lockstep
