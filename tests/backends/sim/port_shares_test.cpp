#include "backends/sim/port_shares.hpp"

#include <random>

#include "backends/sim/engine.hpp"
#include "tests/backends/sim/programs.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

using sim::Port;
using sim::PortShares;
using namespace sim_test;  // NOLINT: the builders are this file's vocabulary

/// Adds a transfer; returns those whose share may have changed.
std::vector<std::uint32_t> add(PortShares& shares, std::uint32_t transfer,
                               const std::vector<Port>& ports) {
  PortShares::Changes changes;
  shares.add(transfer, ports, changes);
  return changes.transfers;
}
std::vector<std::uint32_t> remove(PortShares& shares, std::uint32_t transfer) {
  PortShares::Changes changes;
  shares.remove(transfer, changes);
  return changes.transfers;
}

TEST_CASE("a transfer alone has its ports to itself, and n at one port the n-th part",
          "[backends][sim]") {
  PortShares shares(3, 8);
  CHECK(add(shares, 0, {0, 1}).empty());
  CHECK(shares.share(0) == 1);
  CHECK(add(shares, 1, {2}).empty());
  for (std::uint32_t n = 2; n < 6; ++n) {
    CHECK(add(shares, n, {0}).size() == n);  // 0 and those at port 0
    CHECK(shares.share(n) == Approx(1.0 / n));
    CHECK(shares.share(0) == Approx(1.0 / n));
    CHECK(shares.share(1) == 1);
  }
  CHECK(remove(shares, 0).size() == 4);
  CHECK(shares.share(5) == Approx(1.0 / 4));
}

TEST_CASE("what a transfer cannot use goes to the others", "[backends][sim]") {
  // Bertsekas and Gallager: 0 passes both ports, 1 and 2 the first, 3 the second. The first port
  // gives thirds, and 3 has what 0 leaves of the second.
  PortShares shares(2, 4);
  add(shares, 0, {0, 1});
  add(shares, 1, {0});
  add(shares, 2, {0});
  CHECK(add(shares, 3, {1}) == std::vector<std::uint32_t>{0, 1, 2, 3});
  for (const std::uint32_t t : {0u, 1u, 2u}) CHECK(shares.share(t) == Approx(1.0 / 3));
  CHECK(shares.share(3) == Approx(2.0 / 3));
  remove(shares, 1);
  CHECK(shares.share(0) == Approx(0.5));
  CHECK(shares.share(3) == Approx(0.5));
}

TEST_CASE(
    "no port carries more than it can, and every transfer has a full one of which none has "
    "more",
    "[backends][sim]") {
  std::mt19937 random(7);
  for (int trial = 0; trial < 200; ++trial) {
    constexpr std::uint32_t kPorts = 6, kTransfers = 9;
    PortShares shares(kPorts, kTransfers);
    std::vector<std::vector<Port>> ports(kTransfers);
    const auto check = [&] {
      std::vector<double> load(kPorts, 0), largest(kPorts, 0);
      for (std::uint32_t t = 0; t < kTransfers; ++t) {
        for (const Port p : ports[t]) {
          load[p] += shares.share(t);
          largest[p] = std::max(largest[p], shares.share(t));
        }
      }
      for (const double l : load) CHECK(l < 1 + 1e-9);
      for (std::uint32_t t = 0; t < kTransfers; ++t) {
        if (ports[t].empty()) continue;
        bool bottleneck = false;
        for (const Port p : ports[t]) {
          bottleneck |= load[p] > 1 - 1e-9 && shares.share(t) > largest[p] - 1e-9;
        }
        CHECK(bottleneck);
      }
    };
    for (std::uint32_t t = 0; t < kTransfers; ++t) {
      for (Port p = 0; p < kPorts; ++p) {
        if (random() % 3 == 0) ports[t].push_back(p);
      }
      add(shares, t, ports[t]);
      check();
    }
    for (std::uint32_t t = 0; t < kTransfers; t += 2) {
      remove(shares, t);
      ports[t].clear();
      check();
    }
  }
}

TEST_CASE("two collectives of a rank at one time divide its port, and with plain rings do not",
          "[backends][sim]") {
  // Equal ones that begin together end together, after twice the time of one alone; of a short one
  // beside a long one the long one loses what the short one takes.
  const auto ends = [](CollectiveLibrary library, std::int64_t second, bool fold) {
    Program program = make_mesh_program(1, 2);
    RoleBuilder role(program.roles[0]);
    role.collective(OpKind::AllGather, {1}, Stream::Reduce, role.buffer(std::int64_t{1} << 34));
    role.collective(OpKind::AllGather, {1}, Stream::Gather, role.buffer(second));
    ClusterSpec cluster;
    cluster.devices_per_node = 2;
    cluster.intra_node.bandwidth = cluster.inter_node.bandwidth = {1e9};
    cluster.network.library = library;
    const auto timeline = sim::simulate(program, cluster, {}, {fold});
    REQUIRE(timeline.ok());
    const auto times = timeline->by_op(0, program.roles[0]);
    return std::pair(to_seconds(times[0].end).v, to_seconds(times[1].end).v);
  };
  const double alone = double(std::int64_t{1} << 33) / 1e9;  // half of the bytes
  for (const bool fold : {true, false}) {
    const auto [first, same] = ends(CollectiveLibrary::Nccl, std::int64_t{1} << 34, fold);
    CHECK(first == Approx(2 * alone).epsilon(2e-3));
    CHECK(same == Approx(2 * alone).epsilon(2e-3));
    const auto [longer, shorter] = ends(CollectiveLibrary::Nccl, std::int64_t{1} << 33, fold);
    CHECK(shorter == Approx(alone).epsilon(4e-3));
    CHECK(longer == Approx(1.5 * alone).epsilon(4e-3));
    const auto [plain, beside] = ends(CollectiveLibrary::Ring, std::int64_t{1} << 34, fold);
    CHECK(plain == Approx(alone));
    CHECK(beside == Approx(alone));
  }
}

}  // namespace
}  // namespace lockstep
