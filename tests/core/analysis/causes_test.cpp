#include "core/analysis/causes.hpp"

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

TEST_CASE("causes are means over steps and, where no rank is named, over ranks",
          "[core][analysis]") {
  // Rank 1 computes 0..3, rank 0 0..1; the all-reduce runs 3..5. Then the same step twice as long.
  HandMade m = empty_world(2);
  for (const Rank rank : {0, 1}) {
    add(m, rank, call(Phase::B, 0, 0), "backward", 0, 0, rank == 0 ? 1 : 3);
  }
  const auto reduce = meet(m, OpKind::AllReduce, Stream::Reduce, 0, {1, 3}, 5);
  for (const Rank rank : {0, 1}) {
    test::comes_after(m, rank, reduce[rank], {{0}});
  }
  const Spans first = m.trace.spans;
  for (Span s : first) {
    s.step = 1;
    for (SimTime* t : {&s.begin, &s.active, &s.end}) *t = seconds(10) + 2 * *t;
    m.trace.spans.push_back(s);
  }
  sort_spans(m);
  const Causes c = analyze_steps(m.trace, &m.program, {m.trace, &m.program}).causes;
  const auto cause = [](const auto& times, BubbleCause which) { return times[which].v; };
  CHECK(c.exposed_comm.at("all_reduce").v == Approx(3));  // of 2 and 4
  CHECK(cause(c.bubbles, BubbleCause::Communication) == Approx(3));
  // Rank 0 has nothing left to compute: it waits for the step to end.
  CHECK(cause(c.bubbles, BubbleCause::CoolDown) == Approx(1.5));
  CHECK(cause(c.ranks[0].bubbles, BubbleCause::CoolDown) == Approx(3));
  CHECK(cause(c.ranks[1].bubbles, BubbleCause::CoolDown) == 0);
  CHECK(c.critical_path.at("backward").v == Approx(4.5));
  CHECK(c.critical_path.at("all_reduce").v == Approx(3));
  CHECK(c.ranks[0].computation.v == Approx(1.5));
  CHECK(c.ranks[0].waiting.v == Approx(3));
  CHECK(c.ranks[1].last_arrivals == Approx(1));
  CHECK(c.ranks[1].caused_wait.v == Approx(3));
  CHECK(c.ranks[0].own_wait.v == Approx(3));
}

TEST_CASE("a trace without spans has no causes", "[core][analysis]") {
  const HandMade m = empty_world(2);
  const Causes c = analyze_steps(m.trace, &m.program, {m.trace, &m.program}).causes;
  CHECK(c.critical_path.empty());
  CHECK(c.ranks == std::vector<RankCauses>(2));
}

}  // namespace
}  // namespace lockstep
