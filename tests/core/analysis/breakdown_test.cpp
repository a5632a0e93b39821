#include "core/analysis/breakdown.hpp"

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

TEST_CASE("a step is computation, overlap, communication, waiting and the rest",
          "[core][analysis]") {
  // Compute 0..4 and 9..10. An all-gather runs 3..6 (3..4 hidden), an all-reduce waits 5..7 for its
  // last member (5..6 beside the gather) and runs 7..8. 8..9 is nothing.
  HandMade m = empty_world(2);
  for (const Rank rank : {0, 1}) {
    add(m, rank, call(Phase::F, 0, 0), "forward", 0, 0, 4);
    add(m, rank, call(Phase::O, 0, 0), "optimizer", 9, 9, 10);
  }
  meet(m, OpKind::AllGather, Stream::Gather, 0, {3, 3}, 6);
  meet(m, OpKind::AllReduce, Stream::Reduce, 1, {5, 7}, 8);
  sort_spans(m);
  const Breakdown b = break_down(StepGraph(m.trace, 0, &m.program));
  const RankBreakdown expected{seconds(4), seconds(1), seconds(3), seconds(1), seconds(1)};
  CHECK(b.ranks[0] == expected);
  CHECK(b.ranks[0].overlap() == Approx(0.25));
  CHECK(b.ranks[1] == RankBreakdown{seconds(4), seconds(1), seconds(3), seconds(0), seconds(2)});
  CHECK(b.exposed_by_kind.at("all_gather") == seconds(4));  // 4..6 on both
  CHECK(b.exposed_by_kind.at("all_reduce") == seconds(2));
}

TEST_CASE("of transfers that run at once, the first has the exposed time", "[core][analysis]") {
  HandMade m = empty_world(2);
  meet(m, OpKind::AllGather, Stream::Gather, 0, {0, 0}, 4);
  meet(m, OpKind::AllReduce, Stream::Reduce, 1, {1, 1}, 3);     // inside
  meet(m, OpKind::ReduceScatter, Stream::Layer, 2, {2, 2}, 6);  // sticks out by 2
  sort_spans(m);
  const Breakdown b = break_down(StepGraph(m.trace, 0, &m.program));
  CHECK(b.exposed_by_kind.at("all_gather") == seconds(8));
  CHECK(b.exposed_by_kind.at("reduce_scatter") == seconds(4));
  CHECK(b.exposed_by_kind.count("all_reduce") == 0);
  CHECK(b.ranks[0].communication == seconds(6));
  CHECK(b.ranks[0].overlap() == 0);
}

TEST_CASE("in a trace from elsewhere, kernels of any stream compute, and copies do not",
          "[core][analysis]") {
  HandMade m = empty_world(1);
  m.trace.streams = {"stream 7", "stream 20"};
  add(m, 0, call(Phase::None, -1, -1), "compute", 0, 0, 2);
  const OpId other = add(m, 0, call(Phase::None, -1, -1), "compute", 1, 1, 3);
  const OpId copy = add(m, 0, call(Phase::None, -1, -1), "memcpy", 3, 3, 4);
  for (const OpId op : {other, copy}) {
    test::change(m, 0, op, [](TraceOp& t) { t.stream = 1; });
  }
  sort_spans(m);
  const Breakdown b = break_down(StepGraph(m.trace, 0));
  CHECK(b.ranks[0] == RankBreakdown{seconds(3), {}, {}, {}, seconds(1)});
}

}  // namespace
}  // namespace lockstep
