#include "core/analysis/critical_path.hpp"

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
using Kind = PathSegment::Kind;

/// Rank 0 computes 0..2 and sends 2..3, then computes 2..4; rank 1 computes 0..1 and, with what it
/// received, 3..6. The path: rank 0's first op, the wire, rank 1's second op.
struct TwoStages {
  HandMade m = empty_world(2);
  OpId first, other, early, second;
  Ends wire;
  TwoStages() {
    first = add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 2);
    other = add(m, 0, call(Phase::F, 0, 1), "forward", 2, 2, 4);
    wire = message(m, 0, 1, 0, 2, 0, 3);
    comes_after(m, 0, wire.send, {first});
    early = add(m, 1, call(Phase::F, 1, 7), "forward", 0, 0, 1);
    second = add(m, 1, call(Phase::F, 1, 0), "forward", 3, 3, 6);
    comes_after(m, 1, second, {wire.recv});
    sort_spans(m);
  }
};

TEST_CASE("the path goes back through the message to the op that sent it", "[core][analysis]") {
  const TwoStages t;
  const StepGraph step(t.m.trace, 0, &t.m.program);
  const auto path = critical_path(step);
  CHECK(path ==
        std::vector<PathSegment>{{Kind::Run, step.find(0, t.first), seconds(0), seconds(2)},
                                 {Kind::Run, step.find(0, t.wire.send), seconds(2), seconds(3)},
                                 {Kind::Run, step.find(1, t.second), seconds(3), seconds(6)}});
  const PathSummary summary = summarize(step, path);
  CHECK(summary.by_kind.at("forward") == PathShare{seconds(5), 2});
  CHECK(summary.by_kind.at("send") == PathShare{seconds(1), 1});
  CHECK(summary.by_rank[1] == PathShare{seconds(3), 1});
  CHECK(summary.crossings == 1);
}

TEST_CASE("slack is the room to the next op that is held up", "[core][analysis]") {
  const TwoStages t;
  const StepGraph step(t.m.trace, 0, &t.m.program);
  const std::vector<SimTime> room = slack(step);
  const auto of = [&](Rank rank, OpId op) { return room[step.find(rank, op)]; };
  CHECK(of(0, t.first) == SimTime{});
  CHECK(of(0, t.wire.send) == SimTime{});
  CHECK(of(1, t.wire.recv) == SimTime{});
  CHECK(of(1, t.second) == SimTime{});
  CHECK(of(1, t.early) == seconds(2));  // until 3
  CHECK(of(0, t.other) == seconds(2));  // until the step ends
}

TEST_CASE("a member that came early to a collective has room until the last one came",
          "[core][analysis]") {
  HandMade m = empty_world(2);
  const OpId fast = add(m, 0, call(Phase::B, 0, 0), "backward", 0, 0, 1);
  const OpId slow = add(m, 1, call(Phase::B, 0, 0), "backward", 0, 0, 3);
  const auto reduce = meet(m, OpKind::AllReduce, Stream::Reduce, 0, {1, 3}, 4);
  comes_after(m, 0, reduce[0], {fast});
  comes_after(m, 1, reduce[1], {slow});
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const std::vector<SimTime> room = slack(step);
  CHECK(room[step.find(0, fast)] == seconds(2));
  CHECK(room[step.find(1, slow)] == SimTime{});
  const auto path = critical_path(step);
  REQUIRE(path.size() == 2);
  CHECK(path[0].span == step.find(1, slow));
  CHECK(path[1].length() == seconds(1));
}

TEST_CASE("time that no op accounts for is on the path as waiting", "[core][analysis]") {
  HandMade m = empty_world(1);
  add(m, 0, call(Phase::F, 0, 0), "forward", 1, 1, 2);
  add(m, 0, call(Phase::F, 0, 1), "forward", 4, 4, 5);
  test::edit_spans(m.trace, [](auto& spans) { spans[0].begin = seconds(0); });  // ran from 1
  sort_spans(m);
  for (const Program* program :
       {static_cast<const Program*>(&m.program), static_cast<const Program*>(nullptr)}) {
    const StepGraph step(m.trace, 0, program);
    const auto path = critical_path(step);
    CHECK(path == std::vector<PathSegment>{{Kind::Wait, 0, seconds(0), seconds(1)},
                                           {Kind::Run, 0, seconds(1), seconds(2)},
                                           {Kind::Wait, 1, seconds(2), seconds(4)},
                                           {Kind::Run, 1, seconds(4), seconds(5)}});
    CHECK(summarize(step, path).by_kind.at("waiting").time == seconds(3));
  }
}

TEST_CASE("clocks that disagree bend no path forward in time", "[core][analysis]") {
  TwoStages t;
  test::edit_spans(t.m.trace, [](auto& spans) {  // rank 0's clock is 1.5 s ahead
    for (Span& s : spans) {
      if (s.rank != 0) continue;
      for (SimTime* time : {&s.begin, &s.active, &s.end}) *time += seconds(1.5);
    }
  });
  const StepGraph step(t.m.trace, 0, &t.m.program);
  const auto path = critical_path(step);
  SimTime total{};
  for (std::size_t i = 0; i < path.size(); ++i) {
    CHECK(path[i].begin < path[i].end);
    if (i > 0) CHECK(path[i].begin == path[i - 1].end);
    total += path[i].length();
  }
  CHECK(total == step.makespan());
  for (const SimTime room : slack(step)) CHECK(room >= SimTime{});
}

TEST_CASE("an empty step has no path", "[core][analysis]") {
  const HandMade m = empty_world(1);
  const StepGraph step(m.trace, 0, &m.program);
  CHECK(critical_path(step).empty());
  CHECK(slack(step).empty());
}

}  // namespace
}  // namespace lockstep
