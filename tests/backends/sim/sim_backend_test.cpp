#include "backends/sim/sim_backend.hpp"

#include <algorithm>
#include <tuple>

#include "core/spec/scenario.hpp"
#include "tests/backends/sim/programs.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using namespace sim_test;  // NOLINT: the builders are this file's vocabulary

Scenario scenario() {
  Scenario s;
  s.cluster.devices_per_node = 8;
  s.cluster.intra_node = {{1e6}, {1e-3}};
  return s;
}

Trace run(const Program& program, const Scenario& s) {
  auto result = make_sim_backend(s.what_if)->run(program, s.cluster, {});
  if (!result) FAIL(to_string(result.error()));
  return result->trace;
}

TEST_CASE("a run that nobody keeps a trace of has the same trace, without memory samples",
          "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 8, 2, 0.5, 1, 0.7, 1 << 19});
  Trace kept = run(program, scenario());
  RunOptions options;
  options.memory_samples = false;
  const auto brief = make_sim_backend({})->run(program, scenario().cluster, options);
  REQUIRE(brief);
  CHECK_FALSE(kept.memory.empty());
  CHECK(brief->trace.memory.empty());
  kept.memory.clear();
  CHECK(brief->trace == kept);
}

TEST_CASE("a simulated trace is sorted, and its spans are disjoint on a stream",
          "[backends][sim]") {
  for (const double p2p : {-1.0, 0.0, 0.7}) {
    const Program program = make_pipeline({Order::OneFOneB, 4, 8, 2, 0.5, 1, p2p, 1 << 19});
    const Trace trace = run(program, scenario());
    std::size_t ops = 0;
    for (std::size_t r = 0; r < trace.same_as.size(); ++r) {
      if (trace.same_as[r] == static_cast<Rank>(r)) {
        ops += trace.roles[trace.role_of_rank[r]].ops.size();
      }
    }
    REQUIRE(trace.spans.size() == ops);
    const auto key = [&](const Span& s) {
      const auto role = static_cast<std::size_t>(trace.role_of_rank[s.rank]);
      return std::tuple(s.step, s.rank, trace.roles[role].ops[s.op].stream, s.begin);
    };
    for (std::size_t i = 0; i < trace.spans.size(); ++i) {
      const Span& span = trace.spans[i];
      CHECK(span.begin <= span.active);
      CHECK(span.active <= span.end);
      if (i == 0) continue;
      const Span& before = trace.spans[i - 1];
      CHECK(key(before) <= key(span));
      const bool same_stream =
          before.rank == span.rank && std::get<2>(key(before)) == std::get<2>(key(span));
      if (same_stream) CHECK(before.end <= span.begin);
    }
    CHECK(trace.steps.empty());
    CHECK_FALSE(trace.memory.empty());
  }
}

TEST_CASE("two runs of one program give the same trace", "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 8, 2, 0.5, 1, -1, 1 << 19});
  Scenario s = scenario();
  CHECK(run(program, s) == run(program, s));
  s.cluster.devices_per_node = 1;
  s.cluster.ranks_per_device = 8;
  s.cluster.device.concurrent_ranks = 3;
  s.cluster.device.overlap_slowdown = 1.25;
  CHECK(run(program, s) == run(program, s));
}

TEST_CASE("a faster link never ends later", "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 8, 1, 0.5, 1, -1, 1 << 19});
  SimTime before = SimTime::max();
  for (const double factor : {0.25, 0.5, 1.0, 2.0, 16.0}) {
    Scenario s = scenario();
    s.what_if.bandwidth_factor = factor;
    const Trace trace = run(program, s);
    SimTime end{};
    for (const Span& span : trace.spans) end = std::max(end, span.end);
    CHECK(end <= before);
    before = end;
  }
}

TEST_CASE("links too slow for the clock are refused, however slow they are", "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 8, 1, 0.5, 1, -1, 1 << 19});
  for (const double factor : {1e-14, 1e-16, 1e-20, 1e-40, 1e-300}) {
    for (const double overlap : {1.0, 1.25}) {
      Scenario s = scenario();
      s.what_if.bandwidth_factor = factor;
      s.cluster.device.overlap_slowdown = overlap;
      const auto ran = make_sim_backend(s.what_if)->run(program, s.cluster, {});
      REQUIRE_FALSE(ran.ok());
      CHECK(ran.error().message.find("13 days") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace lockstep
