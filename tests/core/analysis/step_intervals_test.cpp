#include "core/analysis/step_intervals.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <random>
#include <tuple>

#include "core/analysis/breakdown.hpp"
#include "core/analysis/bubbles.hpp"
#include "core/analysis/critical_path.hpp"
#include "core/analysis/report.hpp"
#include "tests/catch.hpp"
#include "tests/core/trace/edit_spans.hpp"

namespace lockstep {
namespace {

// The kinds of ops of the traces below, and the streams on which they run.
constexpr std::array<std::string_view, 6> kKinds = {"forward",    "backward",  "memcpy",
                                                    "all_reduce", "send_recv", "host"};
constexpr std::int32_t kForward = 0, kAllReduce = 3, kHost = 5;
constexpr std::array<std::string_view, 4> kStreams = {"stream 7", "stream 13", "stream 20",
                                                      "host python"};

/// A trace from elsewhere of `world` ranks without spans. A rank has an op of every kind on every
/// stream.
Trace empty_trace(int world) {
  Trace t;
  t.backend = "kineto";
  t.names.assign(kKinds.begin(), kKinds.end());
  t.streams.assign(kStreams.begin(), kStreams.end());
  for (Rank rank = 0; rank < world; ++rank) {
    t.rank_labels.push_back("rank " + std::to_string(rank));
    t.same_as.push_back(rank);
    t.role_of_rank.push_back(rank);
    TraceRole role;
    for (std::size_t stream = 0; stream < kStreams.size(); ++stream) {
      for (std::int32_t kind = 0; kind < static_cast<std::int32_t>(kKinds.size()); ++kind) {
        TraceOp op;
        op.name = op.kind = kind;
        op.stream = static_cast<std::uint16_t>(stream);
        role.ops.push_back(op);
      }
    }
    t.roles.push_back(role);
  }
  return t;
}

void add(Trace& t, int step, Rank rank, int stream, std::int32_t kind, std::int64_t begin,
         std::int64_t active, std::int64_t end) {
  const auto op = static_cast<std::int32_t>(to_size(stream) * kKinds.size()) + kind;
  t.spans.push_back({rank, OpId{op}, step, SimTime{begin}, SimTime{active}, SimTime{end}});
}

void sort(Trace& t) {
  const auto key = [&](const Span& s) {
    return std::tuple(s.step, s.rank, t.roles[s.rank].ops[s.op].stream, s.begin);
  };
  test::edit_spans(t, [&](auto& spans) {
    std::stable_sort(spans.begin(), spans.end(),
                     [&](const Span& a, const Span& b) { return key(a) < key(b); });
  });
}

/// A random trace, whose streams run steps at different times, whose ranks may lack steps, and
/// which has holes.
Trace random_trace(std::mt19937& random) {
  const auto upto = [&](int most) { return std::uniform_int_distribution<int>(0, most)(random); };
  const int world = 1 + upto(3), steps = 1 + upto(4);
  Trace t = empty_trace(world);
  t.instances = {std::vector<Rank>(to_size(world), 0)};
  for (Rank rank = 0; rank < world; ++rank) {
    for (int stream = 0; stream < static_cast<int>(kStreams.size()); ++stream) {
      std::int64_t time = upto(200);
      for (int step = 0; step < steps; ++step) {
        if (upto(5) == 0) continue;
        for (int n = upto(6); n > 0; --n) {
          const bool host = stream == static_cast<int>(kStreams.size()) - 1;
          const std::int64_t begin = time + (upto(2) == 0 ? upto(40) : 0);
          const std::int64_t active = begin + (upto(3) == 0 ? upto(10) : 0);
          time = active + upto(30);
          add(t, step, rank, stream, host ? kHost : upto(kHost - 1), begin, active, time);
        }
      }
    }
  }
  sort(t);
  return t;
}

SimTime sum(const TimeByCause& times) {
  return std::accumulate(times.begin(), times.end(), SimTime{});
}

/// The time that a rank spends on compute or on transfers over the whole run, in any step.
SimTime busy(const Trace& t, Rank rank, bool compute, bool transfers) {
  std::vector<Interval> intervals;
  for (const Span& s : t.spans) {
    const OpClass what = op_class(t.names[t.roles[rank].ops[s.op].kind]);
    const bool wanted = (compute && what == OpClass::Compute) || (transfers && is_transfer(what));
    if (s.rank == rank && wanted) intervals.push_back({s.active, s.end});
  }
  return length(union_of(std::move(intervals)));
}

TEST_CASE("a step's time begins where those that began before it have ended", "[core][analysis]") {
  Trace t = empty_trace(1);
  add(t, 3, 0, 0, kForward, 0, 0, 100);
  add(t, 4, 0, 2, kAllReduce, 60, 60, 150);  // beside step 3's last kernel
  add(t, 5, 0, 1, kForward, 70, 70, 120);    // within what steps 3 and 4 take
  add(t, 6, 0, 0, kForward, 200, 200, 210);  // after a pause that is nobody's
  add(t, 7, 0, 3, kHost, 0, 0, 500);         // of the host alone, where a device works
  sort(t);
  const StepIntervals intervals(t);
  CHECK(intervals.devices_work());
  CHECK(intervals.counted() == 4);
  const auto interval = [&](int step) {
    const StepIntervals::Step* found = intervals.find(step);
    REQUIRE(found != nullptr);
    return std::pair(found->interval.begin.count(), found->interval.end.count());
  };
  CHECK(interval(3) == std::pair<std::int64_t, std::int64_t>{0, 100});
  CHECK(interval(4) == std::pair<std::int64_t, std::int64_t>{100, 150});
  CHECK(interval(5) == std::pair<std::int64_t, std::int64_t>{150, 150});
  CHECK(interval(6) == std::pair<std::int64_t, std::int64_t>{200, 210});
  CHECK_FALSE(intervals.find(7)->counts);
  CHECK(intervals.find(8) == nullptr);
}

TEST_CASE("what the next step does already is no idle time of this one", "[core][analysis]") {
  Trace t = empty_trace(1);
  add(t, 0, 0, 0, kForward, 0, 0, 40);
  add(t, 0, 0, 0, kForward, 90, 90, 100);
  add(t, 1, 0, 1, kForward, 50, 50, 60);     // computes in step 0's gap
  add(t, 1, 0, 2, kAllReduce, 70, 75, 120);  // transfers in it, and beyond its end
  sort(t);
  const Breakdown first = break_down(StepGraph(t, 0)), second = break_down(StepGraph(t, 1));
  CHECK(first.ranks[0].computation == SimTime{40 + 10});
  CHECK(first.ranks[0].overlapping == SimTime{10});
  CHECK(first.ranks[0].communication == SimTime{15});
  CHECK(first.ranks[0].waiting == SimTime{5});
  CHECK(first.ranks[0].other == SimTime{20});
  CHECK(second.ranks[0].communication == SimTime{20});
  const Bubbles bubbles = find_bubbles(StepGraph(t, 0));
  CHECK(bubbles.idle() == SimTime{40});
  REQUIRE(bubbles.list.size() >= 2);
  CHECK(bubbles.list[0].end == SimTime{50});
  // The path of step 1 begins where its time does, in the middle of its only transfer.
  const std::vector<PathSegment> path = critical_path(StepGraph(t, 1));
  REQUIRE(path.size() == 1);
  CHECK(path[0].begin == SimTime{100});
  CHECK(path[0].end == SimTime{120});
}

TEST_CASE("the parts of overlapping steps add up to the steps, and these to the run",
          "[core][analysis]") {
  std::mt19937 random(20261122);
  int overlapping = 0;
  for (int round = 0; round < 300; ++round) {
    const Trace t = random_trace(random);
    INFO("round " << round << ", " << t.spans.size() << " spans");
    const StepIntervals intervals(t);
    std::vector<Interval> windows;
    SimTime all{}, of_windows{};
    std::vector<SimTime> computing(t.same_as.size()), transferring(t.same_as.size());
    for (const StepIntervals::Step& step : intervals.steps()) {
      windows.push_back(step.window);
      of_windows += step.window.end - step.window.begin;
      const StepGraph graph(t, step.number, nullptr, intervals);
      const SimTime whole = graph.makespan();
      all += whole;
      const Breakdown parts = break_down(graph);
      const Bubbles bubbles = find_bubbles(graph);
      SimTime exposed{};
      for (std::size_t r = 0; r < parts.ranks.size(); ++r) {
        const RankBreakdown& p = parts.ranks[r];
        for (const SimTime part :
             {p.computation, p.overlapping, p.communication, p.waiting, p.other}) {
          REQUIRE(part >= SimTime{});
        }
        REQUIRE(p.computation + p.overlapping + p.communication + p.waiting + p.other == whole);
        REQUIRE(sum(bubbles.by_rank[r]) == whole - p.computation - p.overlapping);
        REQUIRE(bubbles.by_rank[r][static_cast<int>(BubbleCause::Communication)] ==
                p.communication);
        computing[r] += p.computation + p.overlapping;
        transferring[r] += p.transfers();
        exposed += p.communication;
      }
      for (const auto& [kind, time] : parts.exposed_by_kind) exposed -= time;
      REQUIRE(exposed == SimTime{});
      SimTime reached = graph.begin();
      for (const PathSegment& segment : critical_path(graph)) {
        REQUIRE(segment.begin == reached);
        reached = segment.end;
      }
      REQUIRE(reached == graph.end());
    }
    const auto covered = union_of(std::move(windows));
    REQUIRE(all == length(covered));
    overlapping += of_windows > all ? 1 : 0;
    for (std::size_t r = 0; r < computing.size(); ++r) {
      REQUIRE(computing[r] == busy(t, static_cast<Rank>(r), true, false));
      REQUIRE(transferring[r] == busy(t, static_cast<Rank>(r), false, true));
    }
    const Report report = analyze(t);
    const auto adds_up = [&](double parts) {
      return parts == Approx(report.step_time.v).epsilon(1e-9).margin(1e-18);
    };
    Seconds idle, bubbles, path;
    for (std::size_t r = 0; r < report.ranks.size(); ++r) {
      const RankReport& x = report.ranks[r];
      const RankCauses& c = report.causes.ranks[r];
      REQUIRE(adds_up((x.compute + x.exposed_comm + x.idle).v));
      REQUIRE(adds_up((c.computation + c.overlapping + c.communication + c.waiting + c.other).v));
      REQUIRE(x.compute.v == Approx((c.computation + c.overlapping).v).epsilon(1e-9).margin(1e-18));
      REQUIRE(x.exposed_comm.v == Approx(c.communication.v).epsilon(1e-9).margin(1e-18));
      idle += x.idle + x.exposed_comm;
    }
    for (const Seconds s : report.causes.bubbles) bubbles += s;
    for (const auto& [kind, s] : report.causes.critical_path) path += s;
    const double world = static_cast<double>(report.ranks.size());
    REQUIRE(world * bubbles.v == Approx(idle.v).epsilon(1e-9).margin(1e-18));
    REQUIRE(adds_up(path.v));
  }
  CHECK(overlapping > 100);  // the property is about these
}

}  // namespace
}  // namespace lockstep
