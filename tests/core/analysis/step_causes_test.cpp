#include "core/analysis/step_causes.hpp"

#include "core/trace/kineto/kineto.hpp"
#include "tests/catch.hpp"
#include "tests/core/analysis/hand_made.hpp"

namespace lockstep {
namespace {

using test::HandMade;

Report report_of_world(const HandMade& m) {
  return analyze(m.trace, m.program, m.scenario.cluster);
}

Seconds sum_of(const StepCauses& parts) {
  Seconds sum;
  for (const Seconds part : parts) sum += part;
  return sum;
}

TEST_CASE("the parts of a uniform pipeline are those of the textbook and add up to the step",
          "[core][analysis]") {
  for (const int p : {1, 2, 4}) {
    const int m = 8;
    const Report r = report_of_world(test::pipeline(p, m, 1, 2, true));
    const StepCauses parts = step_causes(r);
    CHECK(sum_of(parts).v == Approx(r.step_time.v).epsilon(1e-12));
    CHECK(parts[StepCause::Computation].v == Approx(3.0 * m));
    CHECK((sum_of(parts) - parts[StepCause::Computation]).v == Approx(3.0 * (p - 1)).margin(1e-9));
    CHECK(parts[StepCause::Imbalance].v == 0);  // every rank computes as long as any other
    CHECK(parts[StepCause::Recompute].v == 0);
  }
}

TEST_CASE("waiting for a rank that computes longer is imbalance, and no more than that",
          "[core][analysis]") {
  // Two ranks meet in an all-reduce: rank 0 has computed for 4 s, rank 1 for 10 s. A second one
  // meets rank 1 at work that rank 0 has, too, but later.
  HandMade m = test::empty_world(2);
  test::add(m, 0, test::call(Phase::F, 0, 0), "forward", 0, 0, 4);
  test::add(m, 1, test::call(Phase::F, 0, 0), "forward", 0, 0, 10);
  test::meet(m, OpKind::AllReduce, Stream::Reduce, 0, {4, 10}, 11);
  test::add(m, 0, test::call(Phase::O, -1, -1), "optimizer", 11, 11, 12);
  test::add(m, 1, test::call(Phase::O, -1, -1), "optimizer", 11, 11, 12);
  for (const Rank rank : {0, 1}) test::comes_after(m, rank, OpId{2}, {OpId{1}});
  test::sort_spans(m);
  const Report r = report_of_world(m);
  const StepCauses parts = step_causes(r);
  CHECK(sum_of(parts).v == Approx(12));
  CHECK(parts[StepCause::Computation].v == Approx((5 + 11) / 2.0));
  CHECK(parts[StepCause::Imbalance].v == Approx(6 / 2.0));
  CHECK(parts[StepCause::Waiting].v == Approx(0).margin(1e-9));
  CHECK(parts[StepCause::Communication].v == Approx(1));
}

TEST_CASE("recomputation is told apart from computation", "[core][analysis]") {
  HandMade m = test::empty_world(1);
  test::add(m, 0, test::call(Phase::F, 0, 0), "forward", 0, 0, 4);
  m.program.functions.emplace_back();  // what is recomputed
  test::add(m, 0, test::call(Phase::R, 0, 0), "recompute", 4, 4, 7);
  test::add(m, 0, test::call(Phase::B, 0, 0), "backward", 7, 7, 12);
  const StepCauses parts = step_causes(report_of_world(m));
  CHECK(parts[StepCause::Recompute].v == Approx(3));
  CHECK(parts[StepCause::Computation].v == Approx(9));
}

TEST_CASE("the conclusion says the difference and what it comes from, the largest first",
          "[core][analysis]") {
  const Report four = report_of_world(test::pipeline(4, 8, 1, 2, true));
  const Report two = report_of_world(test::pipeline(2, 8, 1, 2, true));
  // These pipelines have no messages, so that the trace does not say why they stand still between.
  CHECK(conclusion(four, two) ==
        "B is 6 s shorter (-18.2 %): 3 s less warm-up and cool-down, 3 s less other idle time.");
  CHECK(conclusion(two, two) == "A and B take equally long.");
  const Report slower = report_of_world(test::pipeline(4, 8, 1.5, 2, true));
  CHECK(conclusion(four, slower) ==
        "B is 5.5 s longer (+16.7 %): 4 s more computation, 750 ms more warm-up and cool-down, "
        "750 ms more other idle time.");
  CHECK(conclusion(four, {}).empty());
}

TEST_CASE("of every profile in the tests the parts add up to the step, overlapping steps included",
          "[core][analysis]") {
  const std::string data = LOCKSTEP_SOURCE_DIR "/tests/data/";
  for (const char* folder : {"kineto", "kineto-fsdp8"}) {
    const auto imported = read_any_trace(data + folder);
    REQUIRE(imported.ok());
    const Report r = analyze(imported->trace);
    INFO(folder);
    CHECK(sum_of(step_causes(r)).v == Approx(r.step_time.v).epsilon(1e-9));
    for (const RankCauses& rank : r.causes.ranks) {
      const Seconds parts =
          rank.computation + rank.overlapping + rank.communication + rank.waiting + rank.other;
      CHECK(parts.v == Approx(r.step_time.v).epsilon(1e-9));
    }
  }
}

}  // namespace
}  // namespace lockstep
