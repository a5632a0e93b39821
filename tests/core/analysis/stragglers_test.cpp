#include "core/analysis/stragglers.hpp"

#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

using test::empty_world;
using test::HandMade;
using test::meet;
using test::message;
using test::seconds;
using test::sort_spans;

TEST_CASE("the last to come is named, with what the others waited", "[core][analysis]") {
  HandMade m = empty_world(3);
  const auto first = meet(m, OpKind::AllReduce, Stream::Reduce, 0, {0, 2, 1}, 3);
  const auto second = meet(m, OpKind::AllReduce, Stream::Reduce, 1, {3, 4, 9}, 10);
  meet(m, OpKind::AllReduce, Stream::Reduce, 2, {10, 10, 10}, 11);
  message(m, 0, 1, 0, 0, 5, 6);  // no collective: not counted
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const Stragglers s = find_stragglers(step);
  CHECK(s.list == std::vector<Arrival>{{step.find(2, second[2]), 3, seconds(6), seconds(11)},
                                       {step.find(1, first[1]), 3, seconds(2), seconds(3)}});
  CHECK(s.ranks == std::vector<RankArrivals>{{3, 0, seconds(0), seconds(8)},
                                             {3, 1, seconds(3), seconds(5)},
                                             {3, 1, seconds(11), seconds(1)}});
  CHECK(s.waited == seconds(14));
}

TEST_CASE("of ranks that come last together, the lowest is named", "[core][analysis]") {
  HandMade m = empty_world(3);
  meet(m, OpKind::AllReduce, Stream::Reduce, 0, {0, 2, 2}, 3);
  sort_spans(m);
  const Stragglers s = find_stragglers(StepGraph(m.trace, 0, &m.program));
  CHECK(s.ranks[1].last == 1);
  CHECK(s.ranks[2].last == 0);
}

TEST_CASE("folded ranks count as the rank that stands for them does", "[core][analysis]") {
  // Ranks 2 and 3 do what 0 and 1 do, once in the same group, once in one of their own.
  for (const bool one_group : {true, false}) {
    HandMade folded = empty_world(4), whole = empty_world(4);
    meet(whole, OpKind::AllReduce, Stream::Reduce, 0, {0, 1, 0, 1}, 2);
    folded = whole;
    folded.trace.same_as = {0, 1, 0, 1};
    test::edit_spans(folded.trace, [](auto& spans) {
      std::erase_if(spans, [](const Span& s) { return s.rank >= 2; });
    });
    for (HandMade* m : {&folded, &whole}) {
      if (!one_group) m->trace.instances = {{0, 0, 2, 2}};
      sort_spans(*m);
    }
    const Stragglers a = find_stragglers(StepGraph(folded.trace, 0, &folded.program));
    const Stragglers b = find_stragglers(StepGraph(whole.trace, 0, &whole.program));
    CHECK(a.ranks == b.ranks);
    CHECK(a.waited == b.waited);
    CHECK(a.waited == seconds(2));
    CHECK(a.list.front().members == (one_group ? 4 : 2));
  }
}

}  // namespace
}  // namespace lockstep
