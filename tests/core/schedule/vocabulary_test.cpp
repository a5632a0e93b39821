// Tests the passes of a vocabulary that all ranks of a pipeline share.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/schedule/communication.hpp"
#include "core/schedule/inputs.hpp"
#include "core/schedule/schedules.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

PipelineShape shape_of(int p, int v, int m, int lag) {
  PipelineShape shape;
  shape.p = p;
  shape.v = v;
  shape.m = m;
  shape.group = interleave_group(0, p, m);
  shape.lag = lag;
  shape.times.assign(static_cast<std::size_t>(p * v + 2), {1, 1, 1});
  shape.times.front() = {0.01, 0, 0.01};
  shape.times.back() = {0.2, 0.2, 0.2};
  return shape;
}

Schedule divided(PipelineSchedule schedule, const PipelineShape& shape) {
  return with_vocabulary(generate(rules_of(schedule), shape), shape);
}

/// The shared passes of a rank, in order.
Actions shared_of(const Schedule& schedule, int rank) {
  Actions shared;
  for (const Action& a : schedule.actions[rank]) {
    if (schedule.on_every_rank(a.stage)) shared.push_back(a);
  }
  return shared;
}

/// The most microbatches of which a rank holds activations of blocks at once.
int peak_of_blocks(const Schedule& schedule, int rank) {
  int live = 0, most = 0;
  for (const Action& a : schedule.actions[rank]) {
    if (schedule.on_every_rank(a.stage)) continue;
    live += a.phase == Phase::F ? 1 : -1;
    most = std::max(most, live);
  }
  return most;
}

/// The time at which the last pass ends, if collectives take no time: each pass begins when its
/// rank and its input are there.
double makespan(const Schedule& schedule, const PipelineShape& shape) {
  Inputs inputs(schedule);
  std::map<std::pair<Phase, std::pair<Stage, Microbatch>>, double> given, ended;
  std::vector<std::size_t> at(schedule.actions.size(), 0);
  std::vector<double> free(schedule.actions.size(), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::size_t r = 0; r < at.size(); ++r) {
      const Actions& actions = schedule.actions[static_cast<int>(r)];
      if (at[r] == actions.size() || !inputs.ready(actions[at[r]])) continue;
      const Action a = actions[at[r]++];
      const StageTimes& times = shape.times[a.stage];
      free[r] = std::max(free[r], given[{a.phase, {a.stage, a.microbatch}}]) +
                (a.phase == Phase::F ? times.forward : times.input + times.weight);
      double& end = ended[{a.phase, {a.stage, a.microbatch}}];
      end = std::max(end, free[r]);
      if (const auto next = inputs.run(a)) {
        given[{next->phase, {next->stage, next->microbatch}}] = end;
      }
      moved = true;
    }
  }
  return *std::max_element(free.begin(), free.end());
}

}  // namespace

TEST_CASE(
    "every rank runs its part of each shared pass, in an order that no rank waits in for ever",
    "[core][schedule]") {
  for (const ScheduleRules& rules : kSchedules) {
    if (!rules.takes_vocabulary) continue;
    for (const int p : {2, 3, 4, 7}) {
      for (const int m : {1, 2, 3, 4, 8, 14}) {
        for (const int lag : {0, 1, 2, 5}) {
          const int v = rules.least_virtual_stages;
          if (v > 1 && m % std::max(1, m / p) != 0) continue;
          INFO(rules.name << " p=" << p << " m=" << m << " lag=" << lag);
          const Schedule schedule = divided(rules.schedule, shape_of(p, v, m, lag));
          CHECK(check_schedule(schedule, p, p * v + 2, m).empty());
          for (int r = 0; r < p; ++r) {
            CHECK(shared_of(schedule, r) == shared_of(schedule, 0));
            CHECK(shared_of(schedule, r).size() == static_cast<std::size_t>(4 * m));
          }
        }
      }
    }
  }
}

TEST_CASE("a schedule in which one rank lacks a shared pass is refused", "[core][schedule]") {
  Schedule schedule = divided(PipelineSchedule::OneFOneB, shape_of(2, 1, 3, 2));
  std::erase_if(schedule.actions[1], [](const Action& a) {
    return a.stage == 3 && a.phase == Phase::B && a.microbatch == 1;
  });
  const std::vector<std::string> faults = check_schedule(schedule, 2, 4, 3);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0] == "stage 3 microbatch 1 on rank 1 has no backward pass (B, or I and W)");
}

TEST_CASE("1F1B with a divided vocabulary keeps at most p - r + lag microbatches on rank r",
          "[core][schedule]") {
  for (const int p : {2, 4, 8}) {
    for (const int m : {1, 4, 9, 32}) {
      for (const int lag : {0, 1, 2, 4}) {
        const Schedule schedule = divided(PipelineSchedule::OneFOneB, shape_of(p, 1, m, lag));
        for (int r = 0; r < p; ++r) {
          CHECK(peak_of_blocks(schedule, r) == std::min(m, p - r + lag));
        }
      }
    }
  }
}

TEST_CASE("with a lag of two, ranks wait for shared passes at the ends of a step alone",
          "[core][schedule]") {
  // In the long run every rank is busy all the time, so that m more microbatches take m times what
  // a rank computes of one: 1 + 2 for its blocks, 0.62 for its part of the vocabulary.
  for (const int p : {2, 4, 8}) {
    const auto time = [&](int m, int lag) {
      const PipelineShape shape = shape_of(p, 1, m, lag);
      return makespan(divided(PipelineSchedule::OneFOneB, shape), shape);
    };
    CHECK_THAT(time(96, 2) - time(48, 2), Catch::Matchers::WithinRel(48 * 3.62, 0.01));
    CHECK(time(48, 0) > time(48, 2) + 10);
  }
}

TEST_CASE("no message goes to or from a stage that all ranks share", "[core][schedule]") {
  const Schedule schedule = divided(PipelineSchedule::OneFOneB, shape_of(2, 1, 2, 2));
  std::map<std::string, int> count;
  for (const auto& cells : with_communication(schedule, 0)) {
    for (const std::string& cell : cells) ++count[cell];
  }
  for (const char* message : {"1SEND_F0", "2RECV_F0", "2SEND_B1", "1RECV_B1"}) {
    CHECK(count[message] == 1);
  }
  for (const char* none : {"0SEND_F0", "2SEND_F0", "3SEND_B0", "1SEND_B0", "0RECV_B0"}) {
    CHECK(count[none] == 0);
  }
}
