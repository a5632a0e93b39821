#include "backends/sim/engine.hpp"

#include "backends/sim/stream_order.hpp"
#include "backends/sim/ways_of_framework.hpp"
#include "core/cost/kernel_time.hpp"
#include "tests/backends/sim/programs.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using sim::OpTiming;
using sim::simulate;
using sim::Timeline;
using namespace sim_test;  // NOLINT: the builders are this file's vocabulary

ClusterSpec cluster_with(BytesPerSecond bandwidth, Seconds latency) {
  ClusterSpec cluster;
  cluster.devices_per_node = 64;
  cluster.intra_node = cluster.inter_node = {bandwidth, latency};
  return cluster;
}

/// A timeline with the times of each simulated rank by op.
struct Ran : Timeline {
  std::vector<IndexVector<OpId, OpTiming>> timings;
};

Ran run(const Program& program, const ClusterSpec& cluster = cluster_with({}, {}),
        const WhatIfSpec& what_if = {}, bool fold = true) {
  auto timeline = simulate(program, cluster, what_if, {fold});
  if (!timeline) FAIL(to_string(timeline.error()));
  Ran ran{*timeline, {}};
  for (std::size_t i = 0; i < ran.ranks.size(); ++i) {
    ran.timings.push_back(ran.by_op(i, program.role_of(ran.ranks[i])));
  }
  return ran;
}

/// When the ops of a role, of which a rank at place i was simulated, were at the front of their
/// streams.
IndexVector<OpId, SimTime> begins(const Timeline& t, std::size_t i, const Role& role) {
  const auto places = sim::places(sim::stream_order(role));
  std::vector<SimTime> begins(role.ops.size());
  sim::find_begins(role, places, t.of_place(i), begins);
  IndexVector<OpId, SimTime> by_op;
  for (const std::uint32_t place : places) by_op.push_back(begins[place]);
  return by_op;
}

SimTime seconds(double s) { return to_sim_time({s}); }
SimTime end_of(const Ran& t, Rank rank, OpId op) { return t.timings[t.place_of(rank)][op].end; }

/// Ranks 0..n-1 of one dp group, one role each, so that they may differ.
Program make_replicas(int n) {
  Program program = make_mesh_program(n, 1);
  program.groups = {{"dp", {0}, {}}};
  return program;
}

// GPipe: the last stage gets its first input after (p-1)(T_F+c), computes m·T without a gap, and
// its last gradient takes (p-1)(T_B+c) to reach stage 0. 1F1B: (m+p-1)T, plus 2c for every crossing
// on the critical path: p-1 to fill and drain, and one round trip for each microbatch of the steady
// phase except every p-th.
TEST_CASE("pipeline makespans equal the closed forms for any times", "[backends][sim]") {
  for (const int p : {1, 2, 3, 4, 7, 16}) {
    for (const int m : {1, 2, 3, 4, 7, 16, 33}) {
      for (const auto& [f, b] : {std::pair{10, 20}, {1, 1}, {7, 3}, {3, 11}}) {
        for (const int c : {0, 1, 4, 25}) {
          CAPTURE(p, m, f, b, c);
          const int t = f + b;
          const Program gpipe =
              make_pipeline({Order::GPipe, p, m, 1, double(f), double(b), double(c)});
          CHECK(run(gpipe).makespan == seconds(m * t + (p - 1) * (t + 2 * c)));
          const Program one =
              make_pipeline({Order::OneFOneB, p, m, 1, double(f), double(b), double(c)});
          const auto trips = (p - 1) + (m - 1) - ceil_div(m - 1, p);
          CHECK(run(one).makespan == seconds((m + p - 1) * t + 2.0 * c * double(trips)));
        }
      }
    }
  }
}

TEST_CASE("a call ends no sooner than the host has launched its kernels", "[backends][sim]") {
  Program program = make_mesh_program(1, 1);
  program.functions = {delay("short", 1), delay("long", 10)};
  RoleBuilder role(program.roles[0]);
  for (const int f : {0, 0, 1, 0, 0}) role.call({f});
  ClusterSpec cluster = cluster_with({}, {});
  cluster.framework.host_kernel = {3};
  const Ran t = run(program, cluster);
  // The host is late twice, runs ahead beside the long call, and is never waited for after it.
  const std::vector<double> ends = {3, 6, 16, 17, 18};
  for (int i = 0; i < 5; ++i)
    CHECK(end_of(t, 0, {i}) == seconds(ends[static_cast<std::size_t>(i)]));
  cluster.framework.launch_blocking = true;
  CHECK(run(program, cluster).makespan == seconds(5 * 3 + 14));
}

TEST_CASE("the host waits for the message that a call reads, and launches from then on",
          "[backends][sim]") {
  Program program = make_pipeline({Order::GPipe, 2, 1, 1, 10, 10, 5});
  ClusterSpec cluster = cluster_with({}, {});
  cluster.framework.host_kernel = {4};
  // F 10, message 5, F 10; B of the last stage follows; message 5; B 10: launches hide in them.
  CHECK(run(program, cluster).makespan == seconds(50));
  cluster.framework.host_kernel = {40};
  CHECK(run(program, cluster).makespan == seconds(4 * 40 + 2 * 5));  // four calls, two messages
}

TEST_CASE("tensor-parallel ranks send parts of a message and gather it", "[backends][sim]") {
  Program program;
  program.mesh.dims = {{"pp", 2}, {"tp", 4}};
  program.roles.resize(2);
  for (Rank rank = 0; rank < 8; ++rank) {
    program.roles[rank / 4].ranks.push_back(rank);
    program.role_of_rank.push_back({rank / 4});
  }
  RoleBuilder first(program.roles[0]), second(program.roles[1]);
  first.send(1, false, first.buffer(4000));
  second.recv(0, false, second.buffer(4000));
  ClusterSpec cluster = cluster_with({10}, {});
  cluster.devices_per_node = 4;
  cluster.intra_node = {{1000}, {}};
  CHECK(run(program, cluster).makespan == seconds(400));
  cluster.framework.scatters_messages = true;
  CHECK(run(program, cluster).makespan == seconds(100 + 3));  // 3/4 of 4000 at 1000 bytes/s
}

TEST_CASE("of a collective beside a product the first part and what is longer remain",
          "[backends][sim]") {
  using sim::BesideProduct;
  CHECK(BesideProduct{}.exposed(100, 4) == 100);
  CHECK(BesideProduct{1000}.exposed(100, 4) == 25);
  CHECK(BesideProduct{40}.exposed(100, 4) == 70);  // 3/4 of the product hide 30
}

TEST_CASE("a folded run equals the run of all ranks", "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 9, 3, 1.5, 2.5, -1, 1 << 20});
  const ClusterSpec cluster = cluster_with({1e6}, {0.125});
  const Ran folded = run(program, cluster);
  const Ran all = run(program, cluster, {}, false);
  REQUIRE(folded.ranks == std::vector<Rank>{0, 3, 6, 9});
  REQUIRE(all.ranks.size() == 12);
  CHECK(folded.makespan == all.makespan);
  for (Rank rank = 0; rank < 12; ++rank) {
    for (std::size_t i = 0; i < program.role_of(rank).ops.size(); ++i) {
      const OpId op{static_cast<std::int32_t>(i)};
      REQUIRE(end_of(folded, rank, op) == end_of(all, rank, op));
    }
  }
}

TEST_CASE("replicas whose group spans nodes are not those whose group does not",
          "[backends][sim]") {
  // Nodes of 3 ranks, pairs along dp: ranks (0 1) share a node, (2 3) do not.
  Program program;
  program.mesh.dims = {{"dp_replicate", 3}, {"dp_shard", 2}};
  program.groups = {{"dp_shard", {1}, {}}};
  program.roles.resize(1);
  program.roles[0].ranks = {0, 1, 2, 3, 4, 5};
  program.role_of_rank.assign(6, RoleId{0});
  RoleBuilder role(program.roles[0]);
  role.collective(OpKind::AllReduce, {0}, Stream::Reduce, role.buffer(100));
  ClusterSpec cluster = cluster_with({100}, {});
  cluster.devices_per_node = 3;
  cluster.nodes = 2;
  cluster.inter_node.bandwidth = {10};
  const Ran t = run(program, cluster);
  CHECK(t.ranks == std::vector<Rank>{0, 2});
  CHECK(end_of(t, 0, {0}) == seconds(1));   // 2 · 1/2 · 100 B at 100 B/s
  CHECK(end_of(t, 2, {0}) == seconds(10));  // at 10 B/s
  CHECK(end_of(t, 4, {0}) == seconds(1));
  cluster.devices_per_node = 2;
  cluster.nodes = 3;
  CHECK(run(program, cluster).ranks == std::vector<Rank>{0});
}

TEST_CASE("a collective starts when its last member is ready and ends for all at once",
          "[backends][sim]") {
  const int n = 4;
  const ClusterSpec cluster = cluster_with({1000}, {0.5});
  Program program = make_replicas(n);
  for (int r = 0; r < n; ++r) {
    program.functions.push_back(delay("wait", r));
    RoleBuilder role(program.roles[r]);
    const OpId call = role.call({r});
    role.collective(OpKind::AllReduce, {0}, Stream::Reduce, role.buffer(4000), {call});
  }
  const Ran t = run(program, cluster);
  for (int r = 0; r < n; ++r) {
    const OpTiming& timing = t.timings[to_size(r)][1];
    CHECK(begins(t, to_size(r), program.roles[r])[1] == seconds(r));
    CHECK(timing.active == seconds(n - 1));
    // Ring: 2(n-1) steps of latency 0.5 s and of S/n = 1000 bytes at 1000 B/s.
    CHECK(timing.end == seconds(n - 1 + 2 * (n - 1) * (0.5 + 1)));
  }
}

TEST_CASE("collectives of one group on two streams match by their order in the program",
          "[backends][sim]") {
  // Rank 0 reaches its second collective (gather) first, rank 1 its first (reduce): the calls share
  // the device, so the short one ends at 2 s and the long one at 11.
  Program program = make_replicas(2);
  program.functions = {delay("long", 10), delay("short", 1)};
  for (int r = 0; r < 2; ++r) {
    RoleBuilder role(program.roles[r]);
    const BufferId small = role.buffer(100);
    const BufferId large = role.buffer(1000);
    const OpId a = role.call({r == 0 ? 0 : 1}, {}, Phase::F, Stream::Compute);
    const OpId b = role.call({r == 0 ? 1 : 0}, {}, Phase::F, Stream::Copy);
    role.collective(OpKind::AllReduce, {0}, Stream::Reduce, small, {a});
    role.collective(OpKind::AllReduce, {0}, Stream::Gather, large, {b});
  }
  const Ran t = run(program, cluster_with({100}, {}));
  for (Rank rank : {0, 1}) {
    CHECK(end_of(t, rank, {2}) == seconds(12));
    CHECK(end_of(t, rank, {3}) == seconds(21));
  }
}

TEST_CASE("streams of a rank overlap and wait only for what `after` names", "[backends][sim]") {
  Program program = make_mesh_program(1, 2);
  program.functions = {delay("f", 2)};
  RoleBuilder role(program.roles[0]);
  const BufferId bytes = role.buffer(3000);
  const OpId f0 = role.call({0});
  const OpId gather = role.collective(OpKind::AllGather, {1}, Stream::Gather, bytes);
  const OpId f1 = role.call({0});
  const OpId f2 = role.call({0}, {gather});
  ClusterSpec cluster = cluster_with({300}, {});  // the gather: 1/2 · 3000 B at 300 B/s
  const Ran t = run(program, cluster);
  CHECK(end_of(t, 0, f0) == seconds(2));
  CHECK(end_of(t, 0, gather) == seconds(5));
  CHECK(end_of(t, 0, f1) == seconds(4));
  CHECK(end_of(t, 0, f2) == seconds(7));
}

TEST_CASE("latencies of consecutive messages overlap, transfers do not", "[backends][sim]") {
  const int n = 5;
  Program program = make_mesh_program(2, 1);
  RoleBuilder sender(program.roles[0]);
  RoleBuilder receiver(program.roles[1]);
  const BufferId out = sender.buffer(100);
  const BufferId in = receiver.buffer(100);
  for (int i = 0; i < n; ++i) {
    sender.send(1, false, out);
    receiver.recv(0, false, in);
  }
  const double latency = 7;
  const Ran t = run(program, cluster_with({100}, {latency}));
  const IndexVector<OpId, SimTime> begin = begins(t, 1, program.roles[1]);
  for (int i = 0; i < n; ++i) {
    const OpId op{i};
    CHECK(end_of(t, 0, op) == seconds(i + 1));
    CHECK(end_of(t, 1, op) == seconds(i + 1 + latency));
    const OpTiming& recv = t.timings[1][op];
    CHECK(begin[op] <= recv.active);
    CHECK(recv.active <= recv.end);
    if (i > 0) CHECK(begin[op] == t.timings[1][OpId{i - 1}].end);
  }
}

// Processor sharing: with equal work w on n ranks, of which c run at full rate, all end at w·max(1,
// n/c). With works w1 <= w2 <= … and c = 1, the k-th ends at sum_{i<k} w_i + (n-k+1)·w_k.
TEST_CASE("ranks that share a device share its throughput", "[backends][sim]") {
  for (const int n : {1, 2, 3, 5, 8}) {
    for (const int concurrent : {1, 2, 3, 8}) {
      CAPTURE(n, concurrent);
      Program program = make_mesh_program(1, n);
      program.functions = {delay("f", 6)};
      RoleBuilder(program.roles[0]).call({0});
      RoleBuilder(program.roles[0]).call({0});
      ClusterSpec cluster = cluster_with({}, {});
      cluster.devices_per_node = 1;
      cluster.ranks_per_device = n;
      cluster.device.concurrent_ranks = concurrent;
      const double factor = std::max(1.0, double(n) / concurrent);
      CHECK(run(program, cluster).makespan == seconds(12 * factor));
    }
  }
  Program program = make_replicas(3);
  program.functions = {delay("1", 1), delay("2", 2), delay("3", 3)};
  for (int r = 0; r < 3; ++r) RoleBuilder(program.roles[r]).call({r});
  ClusterSpec cluster = cluster_with({}, {});
  cluster.devices_per_node = 1;
  cluster.ranks_per_device = 4;
  const Ran t = run(program, cluster);
  CHECK(end_of(t, 0, {0}) == seconds(3));
  CHECK(end_of(t, 1, {0}) == seconds(5));
  CHECK(end_of(t, 2, {0}) == seconds(6));
}

TEST_CASE("calls on two streams of a rank share its device", "[backends][sim]") {
  // 10 s and 2 s that begin together: at half rate the short one ends at 4, with 8 of the long
  // left.
  Program program = make_mesh_program(1, 2);
  program.functions = {delay("long", 10), delay("short", 2)};
  RoleBuilder role(program.roles[0]);
  const OpId longer = role.call({0});
  const OpId shorter = role.call({1}, {}, Phase::F, Stream::Reduce);
  for (const double overlap : {1.0, 1.5}) {
    ClusterSpec cluster = cluster_with({}, {});
    cluster.device.overlap_slowdown = overlap;
    const Ran t = run(program, cluster);
    CHECK(end_of(t, 0, shorter) == seconds(4));
    CHECK(end_of(t, 0, longer) == seconds(12));
    CHECK(t.ranks.size() == 1);  // ranks remain folded
  }
}

TEST_CASE("given times hold whatever shares the device", "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 8, 1, 1, 2, 0});
  ClusterSpec cluster = cluster_with({}, {});
  cluster.devices_per_node = 1;
  cluster.ranks_per_device = 4;
  cluster.device.concurrent_ranks = 2;
  CHECK(run(program, cluster).makespan == seconds((8 + 4 - 1) * 3));
}

TEST_CASE("cores that share their memory also carry out its transfers", "[backends][sim]") {
  // Two ranks on two cores: beside two calls of 10 s, the two ends of an all-reduce of 4 s. Until
  // 8 s four activities share two cores, then 6 s of the calls are left.
  Program program = make_mesh_program(1, 2);
  program.functions = {delay("f", 10)};
  RoleBuilder role(program.roles[0]);
  const OpId call = role.call({0});
  const OpId reduce = role.collective(OpKind::AllReduce, {1}, Stream::Reduce, role.buffer(400));
  ClusterSpec cluster = cluster_with({100}, {});
  cluster.devices_per_node = 1;
  cluster.ranks_per_device = 2;
  cluster.device.concurrent_ranks = 2;
  const Ran shared = run(program, cluster);
  CHECK(end_of(shared, 0, reduce) == seconds(8));
  CHECK(end_of(shared, 0, call) == seconds(14));
  cluster.device.concurrent_ranks = 4;
  CHECK(end_of(run(program, cluster), 0, call) == seconds(10));
  cluster.device.concurrent_ranks = 2;
  cluster.device.host_memory_bandwidth = {1e9};  // a device with a host of its own has copy engines
  CHECK(end_of(run(program, cluster), 0, call) == seconds(10));
}

TEST_CASE("a stream that waited for another is woken first", "[backends][sim]") {
  // 1 s, then an all-reduce of 4 s with three hand-overs, then 1 s with one, then 1 s with none.
  Program program = make_mesh_program(1, 2);
  program.functions = {delay("f", 1)};
  RoleBuilder role(program.roles[0]);
  const OpId first = role.call({0});
  const OpId reduce =
      role.collective(OpKind::AllReduce, {1}, Stream::Reduce, role.buffer(400), {first});
  role.call({0}, {reduce});
  const OpId last = role.call({0});
  ClusterSpec cluster = cluster_with({100}, {});
  CHECK(end_of(run(program, cluster), 0, last) == seconds(7));
  cluster.device.hand_over = {0.25};
  CHECK(end_of(run(program, cluster), 0, reduce) == seconds(5.75));
  CHECK(end_of(run(program, cluster), 0, last) == seconds(8));
}

TEST_CASE("compute and communication that overlap slow each other", "[backends][sim]") {
  // All-reduce of 4 s beside a call of 10 s, factor 2: until 8 s both run at half rate, then 6 s of
  // the call are left.
  Program program = make_mesh_program(1, 2);
  program.functions = {delay("f", 10)};
  RoleBuilder role(program.roles[0]);
  const OpId call = role.call({0});
  const OpId reduce = role.collective(OpKind::AllReduce, {1}, Stream::Reduce, role.buffer(400));
  const OpId copy = role.copy(role.buffer(100));
  ClusterSpec cluster = cluster_with({100}, {});
  cluster.device.overlap_slowdown = 2;
  cluster.device.host_bandwidth = {100};
  for (const bool fold : {true, false}) {
    const Ran t = run(program, cluster, {}, fold);
    CHECK(end_of(t, 0, reduce) == seconds(8));
    CHECK(end_of(t, 0, call) == seconds(14));
    CHECK(end_of(t, 0, copy) == seconds(1));
  }
}

TEST_CASE("an overlap factor without overlap changes nothing", "[backends][sim]") {
  const Program program = make_pipeline({Order::OneFOneB, 4, 8, 1, 10, 20, 3});
  ClusterSpec cluster = cluster_with({}, {});
  const Ran plain = run(program, cluster);
  cluster.device.overlap_slowdown = 1.5;  // given latencies are no transfers
  CHECK(run(program, cluster).makespan == plain.makespan);
}

TEST_CASE("what-if changes the rank or the links that it names", "[backends][sim]") {
  Program program = make_mesh_program(1, 2);
  program.functions = {delay("f", 2)};
  RoleBuilder role(program.roles[0]);
  const OpId call = role.call({0});
  const OpId reduce =
      role.collective(OpKind::AllReduce, {1}, Stream::Reduce, role.buffer(300), {call});
  const ClusterSpec cluster = cluster_with({100}, {});
  CHECK(run(program, cluster).makespan == seconds(5));
  CHECK(run(program, cluster, {.bandwidth_factor = 0.5}).makespan == seconds(8));
  CHECK(run(program, cluster, {.ideal_network = true}).makespan == seconds(2));
  const Ran t = run(program, cluster, {.straggler_rank = 1, .straggler_slowdown = 3});
  CHECK(t.ranks.size() == 2);
  CHECK(end_of(t, 0, call) == seconds(2));
  CHECK(end_of(t, 1, call) == seconds(6));
  CHECK(end_of(t, 0, reduce) == seconds(9));
}

TEST_CASE("a program that gets stuck is an internal error that names the blocked ops",
          "[backends][sim]") {
  Program program = make_mesh_program(2, 1);
  program.functions = {delay("stage.F", 1)};
  RoleBuilder role(program.roles[1]);
  const OpId input = role.recv(0, false, role.buffer(0));
  role.call({0}, {input});
  const auto result = simulate(program, cluster_with({}, {}));
  REQUIRE_FALSE(result.ok());
  CHECK(result.error().kind == ErrorKind::Internal);
  CHECK_THAT(result.error().message, ContainsSubstring("rank 1: %0 recv"));
  CHECK_THAT(result.error().message, ContainsSubstring("stage.F waits for %0 recv"));
}

}  // namespace
}  // namespace lockstep
