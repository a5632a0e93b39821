// Tests causes on hand-made steps. tests/integration tests schedules, and sums over all examples.
#include "core/analysis/bubbles.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

using test::add;
using test::call;
using test::comes_after;
using test::empty_world;
using test::Ends;
using test::HandMade;
using test::meet;
using test::message;
using test::seconds;
using test::sort_spans;

/// The bubbles of a step, whose sums are the same if nobody wants the list.
Bubbles both_ways(const StepGraph& step) {
  Bubbles listed = find_bubbles(step);
  const Bubbles summed = sum_bubbles(step);
  CHECK(summed.list.empty());
  CHECK(summed.by_rank == listed.by_rank);
  CHECK(summed.total == listed.total);
  CHECK(summed.makespan == listed.makespan);
  CHECK(summed.least_idle == listed.least_idle);
  return listed;
}

std::vector<Bubble> bubbles_of(const Bubbles& bubbles, Rank rank) {
  std::vector<Bubble> list;
  for (const Bubble& b : bubbles.list) {
    if (b.rank == rank) list.push_back(b);
  }
  return list;
}

TEST_CASE("a stage waits for the forward op of the stage before it, then for the wire",
          "[core][analysis]") {
  // Rank 0 computes 0..2 and sends 2..3; rank 1 computes 3..5 and is the last to end.
  HandMade m = empty_world(2);
  const OpId f0 = add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 2);
  const Ends wire = message(m, 0, 1, 0, 2, 0, 3);
  comes_after(m, 0, wire.send, {f0});
  const OpId f1 = add(m, 1, call(Phase::F, 1, 0), "forward", 3, 3, 5);
  comes_after(m, 1, f1, {wire.recv});
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const Bubbles bubbles = both_ways(step);

  const SpanIndex next = step.find(1, f1);
  CHECK(
      bubbles_of(bubbles, 1) ==
      std::vector<Bubble>{
          {1, seconds(0), seconds(2), BubbleCause::WarmUp, next, step.find(0, f0)},
          {1, seconds(2), seconds(3), BubbleCause::Communication, next, step.find(1, wire.recv)}});
  CHECK(describe(step, bubbles_of(bubbles, 1)[0]) ==
        "waits for forward of microbatch 0 on stage 0 (rank 0)");
  // The send of rank 0 runs while it has nothing left to do, so it is exposed; then the others go
  // on.
  CHECK(bubbles_of(bubbles, 0) ==
        std::vector<Bubble>{
            {0, seconds(2), seconds(3), BubbleCause::Communication, -1, step.find(0, wire.send)},
            {0, seconds(3), seconds(5), BubbleCause::CoolDown, -1, -1}});
  CHECK(bubbles.idle() == seconds(6));
  CHECK(bubbles.fraction() == Approx(0.6));
  CHECK(bubbles.over_ideal() == Approx(1.5));  // (5 - 2) / 2
}

TEST_CASE("a collective is waited for first and exposed then", "[core][analysis]") {
  // Rank 1 is late by 2: 0 waits 1..3, both see the transfer 3..4.
  HandMade m = empty_world(2);
  std::vector<OpId> backward, optimizer;
  for (const Rank rank : {0, 1}) {
    const double end = rank == 0 ? 1 : 3;
    backward.push_back(add(m, rank, call(Phase::B, 0, 0), "backward", 0, 0, end));
  }
  const auto reduce = meet(m, OpKind::AllReduce, Stream::Reduce, 0, {1, 3}, 4);
  for (const Rank rank : {0, 1}) {
    const auto r = static_cast<std::size_t>(rank);
    optimizer.push_back(add(m, rank, call(Phase::O, -1, -1), "optimizer", 4, 4, 5));
    comes_after(m, rank, reduce[r], {backward[r]});
    comes_after(m, rank, optimizer[r], {reduce[r]});
  }
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const Bubbles bubbles = both_ways(step);
  const SpanIndex next = step.find(0, optimizer[0]);
  CHECK(
      bubbles_of(bubbles, 0) ==
      std::vector<Bubble>{
          {0, seconds(1), seconds(3), BubbleCause::Peer, next, step.find(1, backward[1])},
          {0, seconds(3), seconds(4), BubbleCause::Communication, next, step.find(0, reduce[0])}});
  CHECK(bubbles_of(bubbles, 1).size() == 1);
  CHECK(bubbles.total[BubbleCause::Communication] == seconds(2));
  CHECK(bubble_at(bubbles, step, 0, seconds(2.5))->cause == BubbleCause::Peer);
  CHECK(bubble_at(bubbles, step, 0, seconds(3))->cause == BubbleCause::Communication);
  CHECK(bubble_at(bubbles, step, 0, seconds(4)) == nullptr);
}

TEST_CASE("overhead between ops is told apart from a copy", "[core][analysis]") {
  HandMade m = empty_world(1);
  add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 1);
  Op copy;
  copy.kind = OpKind::HostToDevice;
  copy.stream = Stream::Copy;
  const OpId tokens = add(m, 0, copy, "copy", 2, 2, 3);
  const OpId f = add(m, 0, call(Phase::F, 0, 1), "forward", 4, 4, 5);
  comes_after(m, 0, f, {tokens});
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const Bubbles bubbles = both_ways(step);
  REQUIRE(bubbles.list.size() == 3);  // 1..2 nothing, 2..3 the copy, 3..4 nothing
  CHECK(bubbles.list[1].blocker == step.find(0, tokens));
  for (const Bubble& b : bubbles.list) {
    CHECK(b.cause == BubbleCause::Other);
    CHECK(b.length() == seconds(1));
  }
}

TEST_CASE("folded ranks have the bubbles of the rank that stands for them", "[core][analysis]") {
  HandMade m = empty_world(3);
  add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 1);
  add(m, 0, call(Phase::F, 0, 1), "forward", 3, 3, 4);
  m.trace.same_as = {0, 0, 0};
  const StepGraph step(m.trace, 0);
  const Bubbles bubbles = both_ways(step);
  CHECK(bubbles.list.size() == 1);
  CHECK(bubbles.by_rank.size() == 3);
  CHECK(bubbles.idle() == seconds(6));
  CHECK(bubbles.fraction() == Approx(0.5));
  CHECK(bubble_at(bubbles, step, 2, seconds(2)) == bubbles.list.data());
}

TEST_CASE("without spans there are no bubbles", "[core][analysis]") {
  const HandMade m = empty_world(2);
  const StepGraph step(m.trace, 0, &m.program);
  const Bubbles bubbles = both_ways(step);
  CHECK(bubbles.list.empty());
  CHECK(bubbles.fraction() == 0);
  CHECK(bubbles.over_ideal() == 0);
}

}  // namespace
}  // namespace lockstep
