// Tests what the analyses say of real schedules, against closed forms, and sums that must hold to
// the picosecond on every example scenario.
#include <algorithm>
#include <filesystem>
#include <vector>

#include "core/analysis/breakdown.hpp"
#include "core/analysis/bubbles.hpp"
#include "core/analysis/critical_path.hpp"
#include "core/analysis/report.hpp"
#include "core/analysis/stragglers.hpp"
#include "tests/catch.hpp"
#include "tests/integration/simulated.hpp"

using namespace lockstep;
using test::scenario_file;
using test::simulate_file;
using test::Simulated;

namespace {

std::vector<std::string> all_files() {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(scenario_file(""))) {
    if (entry.path().extension() == ".toml") files.push_back(entry.path().string());
  }
  std::sort(files.begin(), files.end());
  REQUIRE(files.size() > 10);
  return files;
}

SimTime sum(const TimeByCause& times) {
  SimTime total{};
  for (const SimTime t : times) total += t;
  return total;
}

SimTime of(const TimeByCause& times, BubbleCause cause) { return times[cause]; }

void check_sums(const StepGraph& step, const Report& report) {
  const Bubbles bubbles = find_bubbles(step);
  const Breakdown breakdown = break_down(step);
  REQUIRE(bubbles.by_rank.size() == breakdown.ranks.size());
  SimTime exposed{};
  for (std::size_t r = 0; r < breakdown.ranks.size(); ++r) {
    const RankBreakdown& b = breakdown.ranks[r];
    CHECK(b.other >= SimTime{});
    CHECK(b.computation + b.overlapping + b.communication + b.waiting + b.other == step.makespan());
    CHECK(sum(bubbles.by_rank[r]) == step.makespan() - b.computation - b.overlapping);
    CHECK(of(bubbles.by_rank[r], BubbleCause::Communication) == b.communication);
    exposed += b.communication;
  }
  SimTime by_kind{};
  for (const auto& [kind, time] : breakdown.exposed_by_kind) by_kind += time;
  CHECK(by_kind == exposed);
  if (report.sync_step_time.v == 0) {  // else the report's are means over steps of two kinds
    CHECK(bubbles.fraction() == Approx(report.bubble_fraction).margin(1e-12));
    CHECK(bubbles.over_ideal() == Approx(report.bubble_over_ideal).margin(1e-12));
  }
  for (std::size_t i = 0; i < bubbles.list.size(); ++i) {
    const Bubble& b = bubbles.list[i];
    REQUIRE(b.begin < b.end);
    REQUIRE(&b == bubble_at(bubbles, step, b.rank, b.begin));
    if (i > 0 && bubbles.list[i - 1].rank == b.rank) REQUIRE(bubbles.list[i - 1].end <= b.begin);
  }
  const Stragglers stragglers = find_stragglers(step);
  SimTime caused{};
  for (const RankArrivals& r : stragglers.ranks) caused += r.caused;
  CHECK(caused == stragglers.waited);
}

/// Checks the critical path of a simulated step. Nothing waits there but for a data loader, so the
/// path has no holes, and what lies on it has no slack.
void check_path(const StepGraph& step, const DataLoaderSpec& loader) {
  const std::vector<PathSegment> path = critical_path(step);
  REQUIRE_FALSE(path.empty());
  CHECK(path.front().begin == step.begin());
  CHECK(path.back().end == step.end());
  const std::vector<SimTime> room = slack(step);
  REQUIRE(room.size() == step.spans().size());
  SimTime total{};
  for (std::size_t i = 0; i < path.size(); ++i) {
    if (i > 0) REQUIRE(path[i].begin == path[i - 1].end);
    if (path[i].kind == PathSegment::Kind::Wait) {
      REQUIRE(loader.sample.v > 0);
      REQUIRE(step.kind(path[i].span) == "copy");
    }
    REQUIRE(room[path[i].span] == SimTime{});
    total += path[i].length();
  }
  CHECK(total == step.makespan());
  SimTime summed{};
  for (const auto& [kind, share] : summarize(step, path).by_kind) summed += share.time;
  CHECK(summed == total);
}

}  // namespace

TEST_CASE("causes, breakdown and critical path add up exactly on every example",
          "[integration][analysis]") {
  for (const std::string& path : all_files()) {
    for (const Simulated& s : simulate_file(path)) {
      INFO(path << " " << s.scenario.name);
      const StepGraph step(s.trace, 0, &s.program);
      check_sums(step, analyze(s.trace, s.program, s.scenario.cluster));
      check_path(step, s.scenario.cluster.loader);
    }
  }
}

TEST_CASE("without the program, sums hold all the same", "[integration][analysis]") {
  for (const char* name : {"schedules/1f1b-p4-m8.toml", "tiny/gpt2-fsdp2-1f1b2.toml"}) {
    for (const Simulated& s : simulate_file(scenario_file(name))) {
      const StepGraph step(s.trace, 0);
      check_sums(step, analyze(s.trace, s.program, s.scenario.cluster));
      CHECK(slack(step).empty());
      SimTime total{};
      for (const PathSegment& segment : critical_path(step)) total += segment.length();
      CHECK(total == step.makespan());
    }
  }
}

TEST_CASE("1F1B fills for s F + (p-1-s) B on stage s and drains for (p-1-s) F + s B",
          "[integration][analysis]") {
  // Stage s waits s F for its first microbatch. Its p-s warm-up forwards end at p F, when the last
  // stage begins its first backward; that reaches stage s after (p-1-s) B. In the drain its last
  // p-1-s backwards each wait for one F of the stage behind, and the last stage's last backward
  // has s B to go until the first stage ends. Nothing else is idle: together (p-1)(F + B).
  const Simulated s =
      simulate_file(scenario_file("schedules/1f1b-p4-m8.toml"), {"costs.p2p=0.0"}).front();
  const StepGraph step(s.trace, 0, &s.program);
  const Bubbles bubbles = find_bubbles(step);
  const SimTime f = std::chrono::seconds(10), b = std::chrono::seconds(20);
  const int p = 4;
  for (int stage = 0; stage < p; ++stage) {
    const TimeByCause& times = bubbles.by_rank[stage];
    INFO("stage " << stage);
    CHECK(of(times, BubbleCause::WarmUp) == stage * f + (p - 1 - stage) * b);
    CHECK(of(times, BubbleCause::CoolDown) == (p - 1 - stage) * f + stage * b);
    CHECK(sum(times) == (p - 1) * (f + b));
  }
  // The last stage's first bubble waits for the first microbatch of the stage before it.
  const Bubble* first = bubble_at(bubbles, step, p - 1, step.begin());
  REQUIRE(first != nullptr);
  CHECK(describe(step, *first) == "waits for forward of microbatch 0 on stage 2 (rank 2)");
}

TEST_CASE("a straggler comes last to the collectives of its group, and the others wait for it",
          "[integration][analysis]") {
  const Simulated s = simulate_file(scenario_file("tiny/gpt2-fsdp3.toml"),
                                    {"what_if.straggler_rank=1", "what_if.straggler_slowdown=3"})
                          .front();
  const StepGraph step(s.trace, 0, &s.program);
  const Stragglers stragglers = find_stragglers(step);
  REQUIRE_FALSE(stragglers.list.empty());
  for (const Arrival& arrival : stragglers.list) CHECK(step[arrival.last].rank == 1);
  CHECK(stragglers.ranks[1].caused == stragglers.waited);
  CHECK(stragglers.ranks[1].waited == SimTime{});
  CHECK(stragglers.ranks[0].waited == stragglers.ranks[2].waited);
  CHECK(stragglers.ranks[0].last == 0);
  const Bubbles bubbles = find_bubbles(step);
  CHECK(of(bubbles.by_rank[0], BubbleCause::Peer) > SimTime{});
  CHECK(of(bubbles.by_rank[1], BubbleCause::Peer) == SimTime{});
}
