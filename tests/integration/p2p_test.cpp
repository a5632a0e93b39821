// Compares the step times of four ways to post messages with a replay that knows actions only, and
// no programs.
#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>

#include "backends/backends.hpp"
#include "core/analysis/report.hpp"
#include "core/spec/validate/validate.hpp"
#include "tests/catch.hpp"
#include "tests/core/lower/fixtures.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;

namespace {

double simulated(const Scenario& s) { return test::simulate(s).step_time.v; }

/// Finds the times of all actions by relaxation: each begins as soon as the rank and its messages
/// allow, and times are computed again until none changes. A message starts when both ends are
/// posted and arrives p2p later; it does not hold up its sender.
class Replay {
 public:
  Replay(const Schedule& schedule, const CostsSpec& costs, P2pPosting posting)
      : schedule_(schedule), costs_(costs), posting_(posting) {}

  double makespan() {
    double latest = 0;
    for (bool moved = true; moved;) {
      moved = false;
      for (std::size_t r = 0; r < schedule_.actions.size(); ++r) {
        const auto before = posted_;
        latest = std::max(latest, pass(r));
        moved |= posted_ != before;
      }
    }
    return latest;
  }

 private:
  using Message = std::tuple<bool, Stage, Microbatch>;  // forward, the stage that needs it
  struct Ends {
    double sent = 0, awaited = 0;
    bool operator==(const Ends&) const = default;
    double start() const { return std::max(sent, awaited); }
  };

  std::vector<Message> needed_by(const Action& a) const {
    const bool forward = a.phase == Phase::F;
    const bool source = forward ? schedule_.is_first(a.stage) : schedule_.is_last(a.stage);
    if (a.phase == Phase::W || source) return {};
    return remote(a.stage, a.stage + (forward ? -1 : 1), {forward, a.stage, a.microbatch});
  }
  std::vector<Message> sent_by(const Action& a) const {
    const bool forward = a.phase == Phase::F;
    const bool sink = forward ? schedule_.is_last(a.stage) : schedule_.is_first(a.stage);
    if (a.phase == Phase::W || sink) return {};
    const Stage to = a.stage + (forward ? 1 : -1);
    return remote(a.stage, to, {forward, to, a.microbatch});
  }
  std::vector<Message> remote(Stage a, Stage b, const Message& message) const {
    const auto rank = [&](Stage s) { return schedule_.rank_of_stage[s]; };
    if (rank(a) == rank(b)) return {};
    return {message};
  }
  double duration(const Action& a) const {
    const double i = a.phase == Phase::W ? 0 : costs_.backward_input[0];
    const double w = a.phase == Phase::I ? 0 : costs_.backward_weight[0];
    return a.phase == Phase::F ? costs_.forward[0] : i + w;
  }

  /// Runs one rank from its first action to its last, with what is known of its peers. Returns when
  /// it ends. Actions that run as one begin and end together.
  double pass(std::size_t r) {
    const Actions& actions = schedule_.actions[r];
    double time = 0;
    std::vector<Message> sends;  // of the step before
    const auto post = [&](double& end_of_message, double ready, double end) {
      const bool free_running = posting_ == P2pPosting::Async;
      end_of_message = posting_ == P2pPosting::Blocking ? ready : free_running ? 0 : end;
    };
    for (std::size_t i = 0; i < actions.size();) {
      const std::size_t last = i + (actions[i].overlaps_next ? 2 : 1);
      const double end = time;
      double ready = end;
      for (const Message& m : sends) {
        posted_[m].sent = posting_ == P2pPosting::Blocking ? ready : end;
        if (posting_ != P2pPosting::Async) ready = std::max(ready, posted_[m].start());
      }
      sends.clear();
      double busy = 0;
      for (std::size_t k = i; k < last; ++k) {
        for (const Message& m : needed_by(actions[k])) {
          post(posted_[m].awaited, ready, end);
          ready = std::max(ready, posted_[m].start() + costs_.p2p);
        }
        busy += duration(actions[k]);
        for (const Message& m : sent_by(actions[k])) sends.push_back(m);
      }
      time = ready + (last - i == 2 ? costs_.pair_factor : 1) * busy;
      i = last;
    }
    for (const Message& m : sends) posted_[m].sent = time;
    return time;
  }

  const Schedule& schedule_;
  const CostsSpec& costs_;
  const P2pPosting posting_;
  std::map<Message, Ends> posted_;
};

}  // namespace

TEST_CASE("steps with fused and blocking messages take as long as a replay of their actions",
          "[integration]") {
  std::uint64_t state = 7;
  const auto draw = [&](int low, int high) {
    state = state * 6364136223846793005u + 1442695040888963407u;
    return low + static_cast<int>((state >> 33) % static_cast<std::uint64_t>(high - low + 1));
  };
  for (int round = 0; round < 120; ++round) {
    const int p = draw(1, 6);
    const int m = draw(p, 13);
    Scenario s = test::synthetic_scenario(p, m, draw(1, 9), draw(1, 9), draw(1, 9), draw(0, 12));
    for (const auto& [schedule, posting] : {std::pair{PipelineSchedule::GPipe, P2pPosting::Fused},
                                            {PipelineSchedule::OneFOneB, P2pPosting::Fused},
                                            {PipelineSchedule::ZbH1, P2pPosting::Fused},
                                            {PipelineSchedule::GPipe, P2pPosting::Blocking}}) {
      s.strategy.pipeline_parallel_schedule = schedule;
      s.strategy.pipeline_parallel_p2p = posting;
      INFO(rules_of(schedule).name << " p=" << p << " m=" << m << " p2p " << s.costs->p2p);
      CHECK(simulated(s) == Replay(lower_schedule(s), *s.costs, posting).makespan());
    }
  }
}

TEST_CASE("pairs that run as one take their sum times the factor, and shorten DualPipe",
          "[integration]") {
  for (const PipelineSchedule schedule :
       {PipelineSchedule::DualPipe, PipelineSchedule::DualPipeV}) {
    for (const int p : {2, 4, 6}) {
      double before = 1e9;
      for (const double factor : {1.0, 0.75, 0.5}) {
        Scenario s = test::synthetic_scenario(p, 3 * p, 4, 4, 2, 1);
        s.strategy.pipeline_parallel_schedule = schedule;
        s.strategy.pipeline_parallel_virtual_stages =
            schedule == PipelineSchedule::DualPipeV ? 2 : 1;
        s.costs->pair_factor = factor;
        INFO(rules_of(schedule).name << " p=" << p << " factor " << factor);
        const double time = simulated(s);
        CHECK(time == Replay(lower_schedule(s), *s.costs, P2pPosting::Async).makespan());
        CHECK(time < before);
        before = time;
      }
    }
  }
}

TEST_CASE("a receive posted one step ahead hides a transfer no longer than that step",
          "[integration]") {
  // GPipe on two ranks, F = 4 and B = 6. A transfer of c <= F is hidden as if it were free running:
  // m (F + B) + (F + B + 2c). Longer than B, two at a time are under way: two steps take c and one
  // of them, and both halves of the step last (⌊m/2⌋ + 2) times a pass and ⌈m/2⌉ times c.
  for (const int m : {2, 5, 8}) {
    for (const int c : {0, 1, 4, 6, 7, 20}) {
      Scenario s = test::synthetic_scenario(2, m, 4, 5, 1, c);
      s.strategy.pipeline_parallel_schedule = PipelineSchedule::GPipe;
      s.strategy.pipeline_parallel_p2p = P2pPosting::Preposted;
      INFO("m=" << m << " c=" << c);
      if (c <= 4) CHECK(simulated(s) == m * 10 + 10 + 2 * c);
      if (c >= 6) CHECK(simulated(s) == (m / 2 + 2) * 10 + 2 * ((m + 1) / 2) * c);
    }
  }
}

TEST_CASE("whatever the way to post, ranks come to the end or the circle is named before a run",
          "[integration]") {
  int refused = 0;
  for (const ScheduleRules& rules : kSchedules) {
    for (const P2pPosting posting :
         {P2pPosting::Preposted, P2pPosting::Fused, P2pPosting::Blocking}) {
      for (const int p : {1, 2, 3, 4}) {
        for (const int m : {1, 2, 4, 8, 9}) {
          Scenario s = test::synthetic_scenario(p, m, 1, 1, 1, 1);
          s.strategy.pipeline_parallel_schedule = rules.schedule;
          s.strategy.pipeline_parallel_virtual_stages = rules.most_virtual_stages > 1 ? 2 : 1;
          s.strategy.pipeline_parallel_p2p = posting;
          if (!validate(s).empty()) continue;
          INFO(rules.name << " p=" << p << " m=" << m);
          const auto program = lower(s);  // verified
          if (program) continue;
          CHECK(program.error().kind == ErrorKind::InvalidSpec);
          CHECK(posting != P2pPosting::Preposted);
          CHECK(rules.schedule != PipelineSchedule::GPipe);
          CHECK((rules.schedule != PipelineSchedule::OneFOneB || posting == P2pPosting::Blocking));
          ++refused;
        }
      }
    }
  }
  CHECK(refused > 50);
  Scenario s = test::synthetic_scenario(2, 4, 1, 1, 1, 0);
  s.strategy.pipeline_parallel_p2p = P2pPosting::Blocking;
  const auto program = lower(s);
  REQUIRE(!program.ok());
  CHECK(
      program.error().message ==
      "pipeline_parallel_p2p = \"blocking\" deadlocks with this schedule: rank 0 in 'send F s0 mb1 "
      "-> pp1', which waits for rank 1 in 'send B s1 mb0 -> pp0', which waits for the first; "
      "\"fused\" posts what two neighbours send each other together");
}
