#include "core/analysis/compare.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

using test::HandMade;

Comparison compare(const HandMade& a, const HandMade& b) {
  return lockstep::compare(analyze(a.trace, a.program, a.scenario.cluster), a.trace,
                           analyze(b.trace, b.program, b.scenario.cluster), b.trace);
}

TEST_CASE("a run compared with itself has no differences", "[core][analysis]") {
  const HandMade m = test::pipeline(3, 4, 1, 2, true);
  const Comparison c = compare(m, m);
  CHECK(c.same_program);
  CHECK(c.same_order);
  CHECK(c.same_memory);
  REQUIRE(c.kinds.size() == 2);
  for (const KindDifference& kind : c.kinds) CHECK(kind.a.time == kind.b.time);
}

TEST_CASE("what differs most comes first, with both times", "[core][analysis]") {
  const HandMade a = test::pipeline(2, 4, 1, 2, true), b = test::pipeline(2, 4, 1.1, 4, true);
  const Comparison c = compare(a, b);
  CHECK(c.same_order);  // only times differ
  REQUIRE(c.kinds.size() == 2);
  CHECK(c.kinds[0].kind == "backward");
  CHECK(c.kinds[0].a.time.v == Approx(16));
  CHECK(c.kinds[0].b.time.v == Approx(32));
  CHECK(c.ops[0].name == "backward op");
  CHECK(c.ops[1].b.time.v == Approx(8.8));
}

TEST_CASE("ranks, streams, memory kinds and steps are compared, the worst first",
          "[core][analysis]") {
  HandMade a = test::pipeline(2, 4, 1, 2, true), b = test::pipeline(2, 4, 1, 2, true);
  REQUIRE(b.trace.spans.back().rank == 1);
  test::edit_spans(b.trace, [](auto& spans) {  // rank 1's last backward takes 3 s longer
    spans.back().end += test::seconds(3);
  });
  for (HandMade* m : {&a, &b}) m->trace.memory_kinds = {"param", "grad", "activation"};
  a.trace.memory = {{0, test::seconds(0), {10, 5, 0}}, {0, test::seconds(1), {10, 2, 0}}};
  b.trace.memory = {{0, test::seconds(0), {10, 4, 0}}, {1, test::seconds(1), {12, 9, 0}}};
  const Comparison c = compare(a, b);
  REQUIRE(c.ranks.size() == 2);
  CHECK(c.ranks[0].rank == 1);
  CHECK(c.ranks[0].compute_b.v - c.ranks[0].compute_a.v == Approx(3));
  CHECK(c.ranks[0].largest().v == Approx(3));
  REQUIRE(c.streams.size() == 1);
  CHECK(c.streams[0].name == "compute");
  CHECK(c.streams[0].b.time.v == Approx(c.streams[0].a.time.v + 3));
  REQUIRE(c.memory.size() == 2);  // what neither has is left out
  CHECK(c.memory[0].kind == "grad");
  CHECK(c.memory[0].a.v == 5);
  CHECK(c.memory[0].b.v == 9);
  CHECK(c.memory[1].b.v == 12);
  REQUIRE(c.steps.size() == 1);
  CHECK(c.steps[0].a.v == Approx(15));

  // Steps go by their order, not their number; the surplus has nothing to stand beside.
  Span later = a.trace.spans[0];
  later.step = 7;
  for (SimTime* t : {&later.begin, &later.active}) *t += test::seconds(100);
  later.end += test::seconds(101);
  a.trace.spans.push_back(later);
  CHECK(compare(a, b).steps.size() == 1);
  later.step = 3;
  b.trace.spans.push_back(later);
  const Comparison two = compare(a, b);
  REQUIRE(two.steps.size() == 2);
  CHECK(two.steps[1].step_a == 7);
  CHECK(two.steps[1].step_b == 3);
  CHECK(two.steps[1].b.v == Approx(2));

  CHECK(compare(a, test::pipeline(3, 4, 1, 2, true)).ranks.empty());
}

TEST_CASE("a kind that only one run has is compared with nothing", "[core][analysis]") {
  const HandMade a = test::pipeline(1, 2, 1, 2, true);
  HandMade b = a;
  test::add(b, 0, test::call(Phase::O, -1, -1), "optimizer", 6, 6, 9);
  b.trace.program_hash = "other";
  const Comparison c = compare(a, b);
  CHECK_FALSE(c.same_program);
  CHECK_FALSE(c.same_order);
  CHECK(c.kinds[0].kind == "optimizer");
  CHECK(c.kinds[0].a.count == 0);
  CHECK(c.kinds[0].b.time.v == Approx(3));
}

TEST_CASE("ops that ran in another order on a stream are noticed", "[core][analysis]") {
  const HandMade a = test::pipeline(1, 2, 1, 1, true);
  HandMade b = a;
  test::edit_spans(b.trace, [](auto& spans) { std::swap(spans[0].op, spans[1].op); });
  CHECK_FALSE(compare(a, b).same_order);
}

TEST_CASE("memory that differs by one byte is noticed", "[core][analysis]") {
  const HandMade a = test::pipeline(2, 2, 1, 1, true);
  HandMade b = a;
  ++b.trace.peak_memory[1];
  CHECK_FALSE(compare(a, b).same_memory);
}

TEST_CASE("losses are compared over the steps that both runs have", "[core][analysis]") {
  HandMade a = test::pipeline(1, 1, 1, 1, true), b = a;
  a.trace.steps = {{0, 4.0, 0, 0, {}}, {1, 3.0, 0, 0, {}}, {2, 2.0, 0, 0, {}}};
  b.trace.steps = {{0, 4.0, 0, 0, {}}, {1, 3.3, 0, 0, {}}};
  const LossDifference losses = compare(a, b).losses;
  CHECK(losses.steps == 2);
  CHECK(losses.worst_step == 1);
  CHECK(losses.largest == Approx(0.3));
  CHECK(losses.relative == Approx(0.1));
}

TEST_CASE("folded and unfolded runs of one program have the same order", "[core][analysis]") {
  HandMade whole = test::empty_world(2), folded = test::empty_world(2);
  for (HandMade* m : {&whole, &folded}) {
    for (const Rank rank : {0, 1})
      test::add(*m, rank, test::call(Phase::F, 0, 0), "forward", 0, 0, 1);
  }
  folded.trace.same_as = {0, 0};
  folded.trace.spans = {folded.trace.spans[0]};
  CHECK(compare(whole, folded).same_order);
}

}  // namespace
}  // namespace lockstep
