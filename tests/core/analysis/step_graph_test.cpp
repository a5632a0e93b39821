#include "core/analysis/step_graph.hpp"

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
using test::sort_spans;

std::vector<Rank> ranks_of(const StepGraph& step, std::span<const SpanIndex> spans) {
  std::vector<Rank> ranks;
  for (const SpanIndex i : spans) ranks.push_back(step[i].rank);
  return ranks;
}

TEST_CASE("members of a collective meet by group, channel and sequence number",
          "[core][analysis]") {
  HandMade m = empty_world(4);
  std::vector<std::vector<OpId>> ids;
  for (int seq = 0; seq < 2; ++seq) {
    ids.push_back(meet(m, OpKind::AllReduce, Stream::Reduce, seq, {5.0 * seq, 1 + 5.0 * seq, 0, 0},
                       4 + 5.0 * seq));
  }
  m.trace.instances = {{0, 0, 2, 2}};  // two groups of two
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  for (const auto& of_rank : ids) {
    for (const Rank rank : {0, 1, 2, 3}) {
      const SpanIndex i = step.find(rank, of_rank[rank]);
      const auto members = step.meeting(i);
      CHECK(ranks_of(step, members) ==
            (rank < 2 ? std::vector<Rank>{0, 1} : std::vector<Rank>{2, 3}));
      for (const SpanIndex other : members) CHECK(step.op(other).seq == step.op(i).seq);
      CHECK(step[step.last_arrival(i)].rank == (rank < 2 ? 1 : rank));  // 2 and 3 come together
    }
  }
}

TEST_CASE("of members that come last together, the lowest rank counts for those before them",
          "[core][analysis]") {
  HandMade m = empty_world(4);
  const auto ids = meet(m, OpKind::AllReduce, Stream::Reduce, 0, {0, 2, 2, 1}, 3);
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  for (const auto& [rank, last] : {std::pair{0, 1}, {1, 1}, {2, 2}, {3, 1}}) {
    CHECK(step[step.last_arrival(step.find(rank, ids[to_size(rank)]))].rank == last);
  }
}

TEST_CASE("a rank outside a group, or a channel that says nothing, meets nobody",
          "[core][analysis]") {
  HandMade m = empty_world(2);
  const auto ids = meet(m, OpKind::AllReduce, Stream::Reduce, 0, {0, 1}, 2);
  m.trace.instances = {{0, -1}};
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  CHECK(step.meeting(step.find(0, ids[0])).size() == 1);
  CHECK(step.meeting(step.find(1, ids[1])).empty());
  CHECK(step.last_arrival(step.find(1, ids[1])) == step.find(1, ids[1]));
}

TEST_CASE("the n-th sender of a channel meets the n-th receiver", "[core][analysis]") {
  HandMade m = empty_world(4);  // 0 sends to 2, 1 to 3, over one channel
  const Ends first = message(m, 0, 2, 0, 0, 1, 2);
  const Ends second = message(m, 1, 3, 0, 0, 0, 2);
  for (const auto& [rank, op] :
       {std::pair{0, first.send}, {2, first.recv}, {1, second.send}, {3, second.recv}}) {
    test::change(m, rank, op, [](TraceOp& t) { t.channel = 1'000'000; });
  }
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  CHECK(step.other_end(step.find(0, first.send)) == step.find(2, first.recv));
  CHECK(step.other_end(step.find(3, second.recv)) == step.find(1, second.send));
  CHECK(step.is_receive(step.find(3, second.recv)));
  CHECK_FALSE(step.is_receive(step.find(1, second.send)));
}

TEST_CASE("an op is held by what ended last of what it comes after", "[core][analysis]") {
  HandMade m = empty_world(1);
  const OpId a = add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 3);
  Op copy;
  copy.kind = OpKind::HostToDevice;
  copy.stream = Stream::Copy;
  const OpId b = add(m, 0, copy, "copy", 0, 0, 5);
  const OpId c = add(m, 0, call(Phase::F, 0, 1), "forward", 5, 5, 6);
  comes_after(m, 0, c, {b});
  sort_spans(m);
  for (const Program* program :
       {static_cast<const Program*>(&m.program), static_cast<const Program*>(nullptr)}) {
    const StepGraph step(m.trace, 0, program);
    CHECK(step.held_by(step.find(0, c)) == step.find(0, b));
    CHECK(step.held_by(step.find(0, a)) == -1);
    CHECK(step.on_stream_before(step.find(0, c)) == step.find(0, a));
    CHECK(step.span_class(step.find(0, b)) == SpanClass::Other);
    CHECK(step.span_class(step.find(0, c)) == SpanClass::Compute);
    CHECK(step.makespan() == test::seconds(6));
  }
}

TEST_CASE("a graph holds one step; a step without spans is empty", "[core][analysis]") {
  HandMade m = empty_world(2);
  const OpId op = add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 2);
  m.trace.spans.push_back({0, op, 3, test::seconds(10), test::seconds(10), test::seconds(16)});
  CHECK(traced_steps(m.trace) == std::vector<std::int32_t>{0, 3});
  const StepGraph second(m.trace, 3, &m.program);
  CHECK(second.size() == 1);
  CHECK(second.begin() == test::seconds(10));
  CHECK(second.ranks() == std::vector<Rank>{0});
  const StepGraph none(m.trace, 1);
  CHECK(none.size() == 0);
  CHECK(none.makespan() == SimTime{});
  CHECK(none.of_rank(1).first == none.of_rank(1).last);
}

TEST_CASE("of two ops that take no time at one instant, one waits for the other at most",
          "[core][analysis]") {
  HandMade m = test::empty_world(1);
  for (int n = 0; n < 3; ++n) test::add(m, 0, test::call(Phase::F, 0, n), "send_recv", 1, 1, 1);
  const StepGraph step(m.trace, 0);
  CHECK(step.held_by(0) == -1);
  CHECK(step.held_by(1) == 0);
  CHECK(step.held_by(2) == 1);
}

}  // namespace
}  // namespace lockstep
