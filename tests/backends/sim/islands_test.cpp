#include "backends/sim/islands.hpp"

#include <algorithm>
#include <vector>

#include "backends/sim/engine.hpp"
#include "backends/sim/jitter.hpp"
#include "tests/backends/sim/programs.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using namespace sim_test;  // NOLINT: the builders are this file's vocabulary

/// Each rank computes, sums over the copies, and computes again.
Program copies_that_meet(int copies, double first, double second) {
  Program program = make_mesh_program(1, copies);
  program.functions = {delay("first", first), delay("second", second)};
  RoleBuilder role(program.roles[0]);
  const OpId before = role.call({0});
  const OpId sum =
      role.collective(OpKind::AllReduce, {1}, Stream::Reduce, role.buffer(1 << 20), {before});
  role.call({1}, {sum});
  return program;
}

ClusterSpec cluster_of(int ranks) {
  ClusterSpec cluster;
  cluster.devices_per_node = 8;
  cluster.nodes = (ranks + 7) / 8;
  cluster.intra_node = cluster.inter_node = {{50e9}, {3e-6}};
  return cluster;
}

TEST_CASE("an island is a copy of the model, and only sums over copies bridge islands",
          "[backends][sim]") {
  const int pp = 3, dp = 4;
  Program program = make_pipeline({Order::OneFOneB, pp, 2, dp});
  for (Role& role : program.roles) {
    RoleBuilder builder(role);
    builder.collective(OpKind::AllReduce, {1}, Stream::Reduce, builder.buffer(8));
  }
  WhatIfSpec apart;
  apart.jitter = 0.1;
  const auto plan = sim::make_plan(program, cluster_of(pp * dp), apart, true);
  REQUIRE(plan.ok());
  const sim::Islands islands = sim::find_islands(program, *plan);
  REQUIRE(islands.ranks.size() == dp);
  for (std::uint32_t i = 0; i < dp; ++i) {  // a rank is its stage × dp + its copy
    CHECK(islands.ranks[i] == std::vector<std::uint32_t>{i, dp + i, 2 * dp + i});
  }
  REQUIRE(islands.bridges.size() == pp);
  CHECK(std::count(islands.bridges.begin(), islands.bridges.end(), 1) == pp);

  Program joined = program;  // a group over the pipeline makes no bridge
  for (Role& role : joined.roles) {
    RoleBuilder builder(role);
    builder.collective(OpKind::AllReduce, {0}, Stream::Stages, builder.buffer(8));
  }
  const auto other = sim::make_plan(joined, cluster_of(pp * dp), apart, true);
  REQUIRE(other.ok());
  const sim::Islands same = sim::find_islands(joined, *other);
  CHECK(same.ranks == islands.ranks);
  CHECK(std::count(same.bridges.begin(), same.bridges.end(), 0) == dp);
}

TEST_CASE("a thousand islands that compute with jitter meet when the last has come",
          "[backends][sim]") {
  const double first = 1e-3, second = 2e-3;
  for (const int copies : {3, 1100}) {  // the times of so many ranks are written in pieces
    const Program program = copies_that_meet(copies, first, second);
    WhatIfSpec what_if;
    what_if.jitter = 0.1;
    const auto timeline = sim::simulate(program, cluster_of(copies), what_if);
    REQUIRE(timeline.ok());
    REQUIRE(timeline->ranks.size() == static_cast<std::size_t>(copies));
    double last = 0;
    for (Rank r = 0; r < copies; ++r) {
      last = std::max(last, first * sim::jitter_factor(what_if, r, 0));
    }
    const auto [met, summed] = timeline->by_op(0, program.role_of(0))[1];
    CHECK(to_seconds(met).v == Approx(last));
    double makespan = 0;
    for (Rank r = 0; r < copies; ++r) {
      const auto times = timeline->by_op(to_size(r), program.role_of(r));
      REQUIRE(to_seconds(times[0].end).v == Approx(first * sim::jitter_factor(what_if, r, 0)));
      REQUIRE(times[1].active == met);
      REQUIRE(times[1].end == summed);
      const double end = to_seconds(summed).v + second * sim::jitter_factor(what_if, r, 2);
      REQUIRE(to_seconds(times[2].end).v == Approx(end));
      makespan = std::max(makespan, end);
    }
    CHECK(to_seconds(timeline->makespan).v == Approx(makespan));
  }
}

}  // namespace
}  // namespace lockstep
