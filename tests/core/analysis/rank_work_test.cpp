#include "core/analysis/rank_work.hpp"

#include "core/analysis/rank_analyses.hpp"
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

IntervalSet set(std::initializer_list<std::pair<double, double>> intervals) {
  IntervalSet result;
  for (const auto& [begin, end] : intervals) result.push_back({seconds(begin), seconds(end)});
  return result;
}

TEST_CASE("what a rank does is in the order of its begin, and as sets", "[core][analysis]") {
  // Rank 0 computes 1..2, 2..4 and, with no length, at 6; transfers of three streams run at once.
  HandMade m = empty_world(2);
  add(m, 0, call(Phase::F, 0, 0), "forward", 0, 1, 2);
  add(m, 0, call(Phase::B, 0, 0), "backward", 2, 2, 4);
  add(m, 0, call(Phase::O, 0, 0), "optimizer", 6, 6, 6);
  meet(m, OpKind::ReduceScatter, Stream::Layer, 0, {4, 3}, 9);
  meet(m, OpKind::AllReduce, Stream::Reduce, 1, {5, 7}, 8);
  meet(m, OpKind::AllGather, Stream::Gather, 2, {0, 0}, 3);
  sort_spans(m);
  const StepGraph step(m.trace, 0, &m.program);
  const RankWork work = work_of(step, 0);
  std::vector<SimTime> begins;
  for (const Busy& transfer : work.transfers) begins.push_back(transfer.begin);
  CHECK(begins == std::vector<SimTime>{seconds(0), seconds(4), seconds(7)});
  CHECK(m.trace.names[work.transfers[1].kind] == "reduce_scatter");
  CHECK(step[work.transfers[1].span].begin == seconds(4));
  CHECK(work.compute.size() == 3);
  CHECK(work.computing == set({{1, 4}}));
  CHECK(work.transferring == set({{0, 3}, {4, 9}}));
  CHECK(work.waiting == set({{5, 7}}));
  CHECK(work.stage_span == seconds(6 - 1));
  CHECK(work_of(step, 1).stage_span == SimTime{});
}

TEST_CASE("what another step does beside this one counts within the step's time alone",
          "[core][analysis]") {
  HandMade m = empty_world(1);
  add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 2);
  add(m, 0, call(Phase::F, 0, 0), "forward", 1, 1, 5);
  test::edit_spans(m.trace, [](auto& spans) { spans.back().step = 1; });
  sort_spans(m);
  const RankWork first = work_of(StepGraph(m.trace, 0), 0);
  REQUIRE(first.compute.size() == 2);
  CHECK(first.compute[1].span == -1);
  CHECK(first.computing == set({{0, 2}}));
  CHECK(first.stage_span == seconds(2));
  CHECK(work_of(StepGraph(m.trace, 1), 0).computing == set({{2, 5}}));
}

TEST_CASE("a rank that another one stands for has its figures, and counts in sums",
          "[core][analysis]") {
  HandMade m = empty_world(2);
  m.trace.same_as[1] = 0;
  add(m, 0, call(Phase::F, 0, 0), "forward", 0, 0, 2);
  meet(m, OpKind::AllGather, Stream::Gather, 0, {1}, 5);
  m.trace.instances[0].push_back(0);
  sort_spans(m);
  const RankAnalyses found = analyze_ranks(StepGraph(m.trace, 0, &m.program), true);
  CHECK(found.breakdown.ranks[1] == found.breakdown.ranks[0]);
  CHECK(found.breakdown.stage_spans[1] == seconds(2));
  CHECK(found.breakdown.exposed_by_kind.at("all_gather") == seconds(2 * 3));
  CHECK(found.bubbles.total[BubbleCause::Communication] == seconds(2 * 3));
  CHECK(found.bubbles.least_idle == seconds(3));
  CHECK(found.bubbles.list.size() == 1);
}

}  // namespace
}  // namespace lockstep
