#include "core/cost/nccl.hpp"

#include <cmath>
#include <numeric>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

using Algorithm = CollectiveAlgorithm;
using Protocol = CollectiveProtocol;

constexpr Bytes kGiB{std::int64_t{1} << 30};

/// Nodes of eight H200s: 365.6 GB/s of a ring, 273 GB/s by the switch, ports of 37 GB/s.
ClusterSpec h200(int nodes) {
  ClusterSpec c;
  c.nodes = nodes;
  c.devices_per_node = 8;
  c.intra_node.bandwidth = {365.6e9};
  c.inter_node.bandwidth = {37e9};
  c.network.library = CollectiveLibrary::Nccl;
  c.network.in_switch_reduction = {273e9};
  c.network.low_latency = {141e9};
  return c;
}

CollectiveTime of(const ClusterSpec& c, OpKind kind, Bytes bytes, int ranks,
                  std::optional<Algorithm> only = std::nullopt) {
  std::vector<Rank> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  return collective_time(kind, bytes, ranks, group_links(c, members), c, only);
}
CollectiveTime choice(const ClusterSpec& c, Bytes bytes, int ranks, Algorithm a, Protocol p) {
  std::vector<Rank> members(static_cast<std::size_t>(ranks));
  std::iota(members.begin(), members.end(), 0);
  for (const CollectiveTime& t :
       collective_choices(OpKind::AllReduce, bytes, ranks, group_links(c, members), c)) {
    if (t.algorithm == a && t.protocol == p) return t;
  }
  FAIL("no such choice");
  return {};
}

TEST_CASE("a large all-reduce by ring moves 2(n-1)/n of its bytes at the ring's rate",
          "[core][cost]") {
  const CollectiveTime t = of(h200(1), OpKind::AllReduce, {64 * kGiB.v}, 8, Algorithm::Ring);
  CHECK(t.protocol == Protocol::Simple);
  const double wire = 2.0 * 7 / 8 * 64 * double(kGiB.v) / 365.6e9;
  CHECK((t.estimate - t.time.latency).v == Approx(wire));
  // What the pipeline holds, 16 channels of 1 MiB, comes on top once.
  CHECK((t.time.total() - t.estimate).v ==
        Approx(2.0 * 7 / 8 * 16 * 1048576.0 / 365.6e9).epsilon(1e-3));
  // 8.4 us of a call, fourteen steps of 3.4 us
  CHECK(t.time.latency.v == Approx(8.4e-6 + 14 * 3.4e-6));
}

TEST_CASE("NCCL's choices on eight H200s are those that it logs", "[core][cost]") {
  // stas00/ml-engineering, network: "Algo RING proto LL up to a 1MiB payload and Algo NVLS proto
  // SIMPLE from 2MiB up, and Algo RING proto SIMPLE" for large ones when NVLS is disabled;
  // all-gather and reduce-scatter by ring; four GPUs do not use NVLS, five do.
  for (std::int64_t bytes = 8; bytes <= 16 * kGiB.v; bytes *= 2) {
    CAPTURE(bytes);
    const CollectiveTime t = of(h200(1), OpKind::AllReduce, {bytes}, 8);
    const bool small = bytes <= (1 << 20);
    CHECK(t.algorithm == (small ? Algorithm::Ring : Algorithm::Nvls));
    CHECK(t.protocol == (small ? Protocol::LL : Protocol::Simple));
  }
  CHECK(of(h200(1), OpKind::AllGather, kGiB, 8).algorithm == Algorithm::Ring);
  CHECK(of(h200(1), OpKind::AllReduce, kGiB, 4).algorithm == Algorithm::Ring);
  CHECK(of(h200(1), OpKind::AllReduce, kGiB, 5).algorithm == Algorithm::Nvls);
  ClusterSpec without = h200(1);
  without.network.in_switch_reduction = {};
  CHECK(of(without, OpKind::AllReduce, kGiB, 8).algorithm == Algorithm::Ring);
}

TEST_CASE("a ring's latency grows with the ranks, a tree's with the logarithm of the nodes",
          "[core][cost]") {
  const Bytes tiny{8};
  const auto latency = [&](Algorithm a, int nodes) {
    return choice(h200(nodes), tiny, 8 * nodes, a, Protocol::LL).time.latency.v;
  };
  // 6.8 us, and up and down: seven steps of 0.6 us inside, log2(k) of 5 us between
  for (const int nodes : {1, 2, 4, 16, 256}) {
    CHECK(latency(Algorithm::Tree, nodes) ==
          Approx(6.8e-6 + 2 * (7 * 0.6e-6 + std::log2(nodes) * 5e-6)));
  }
  // 6.6 us, 2(k-1) steps of 2.7 us between nodes, the rest of at least 1 us
  CHECK(latency(Algorithm::Ring, 4) == Approx(6.6e-6 + 6 * 2.7e-6 + 56 * 1e-6));
  CHECK(of(h200(64), OpKind::AllReduce, tiny, 512).algorithm == Algorithm::Tree);
}

TEST_CASE("between nodes a tree carries half of a node's ports, a ring (n-1)/(k-1) of them",
          "[core][cost]") {
  const Bytes large{64 * kGiB.v};
  const CollectiveTime ring = of(h200(4), OpKind::AllReduce, large, 32);
  CHECK(ring.algorithm == Algorithm::Ring);  // stas00, H200 with EFA: 365 GB/s, NVLS tree 310
  // 31/3 ports of 37 GB/s would be 382: the links inside the node are the limit.
  CHECK((ring.estimate - ring.time.latency).v == Approx(2 * 31.0 / 32 * double(large.v) / 365.6e9));
  const CollectiveTime wide = of(h200(16), OpKind::AllReduce, large, 128, Algorithm::Ring);
  CHECK((wide.estimate - wide.time.latency).v ==
        Approx(2 * 15.0 / 16 * double(large.v) / (8 * 37e9)));
  const CollectiveTime tree = choice(h200(4), large, 32, Algorithm::NvlsTree, Protocol::Simple);
  CHECK((tree.estimate - tree.time.latency).v == Approx(double(large.v) / (8 * 37e9 / 2)));
  // With two nodes the switches' rate is the limit: a node sends its sum once.
  const CollectiveTime two = choice(h200(2), large, 16, Algorithm::NvlsTree, Protocol::Simple);
  CHECK((two.estimate - two.time.latency).v == Approx(double(large.v) / 273e9));
}

TEST_CASE("protocols trade latency for bandwidth", "[core][cost]") {
  const Bytes large{64 * kGiB.v};
  const auto bandwidth = [&](Protocol p) {
    const CollectiveTime t = choice(h200(1), large, 8, Algorithm::Ring, p);
    return 1.75 * double(large.v) / (t.estimate - t.time.latency).v;
  };
  CHECK(bandwidth(Protocol::Simple) == Approx(365.6e9));
  CHECK(bandwidth(Protocol::LL128) == Approx(0.92 * 365.6e9));
  CHECK(bandwidth(Protocol::LL) == Approx(141e9));
  ClusterSpec pcie = h200(1);
  pcie.network.node_link = NodeLink::Pcie;
  std::vector<Rank> members{0, 1, 2, 3};
  for (const CollectiveTime& t :
       collective_choices(OpKind::AllReduce, {1 << 20}, 4, group_links(pcie, members), pcie)) {
    CHECK(t.protocol != Protocol::LL128);
  }
}

TEST_CASE("with LL the latency of steps hides bytes", "[core][cost]") {
  // 1 MiB over eight at 141 GB/s: 13 us beside fourteen steps of 0.6 us.
  const CollectiveTime t = of(h200(1), OpKind::AllReduce, {1 << 20}, 8);
  REQUIRE(t.protocol == Protocol::LL);
  const double data = 1.75 * 1048576 / 141e9, steps = 14 * 0.6e-6;
  CHECK(t.time.total().v == Approx(6.6e-6 + std::sqrt(data * data + steps * steps)));
  CHECK(t.estimate.v == Approx(6.6e-6 + data + steps));
}

TEST_CASE("more bytes or more latency never end earlier", "[core][cost]") {
  for (const int nodes : {1, 2, 8}) {
    for (const OpKind kind : {OpKind::AllGather, OpKind::Broadcast, OpKind::AllToAll}) {
      Seconds before;
      for (std::int64_t bytes = 8; bytes <= kGiB.v; bytes *= 4) {
        CAPTURE(nodes, bytes);
        const ClusterSpec near = h200(nodes);
        ClusterSpec far = near;
        far.inter_node.latency = {50e-6};
        const Seconds time = of(near, kind, {bytes}, 8 * nodes).time.total();
        CHECK(time >= before);
        CHECK(of(far, kind, {bytes}, 8 * nodes).time.total() >= time);
        before = time;
      }
    }
  }
}

TEST_CASE("a message of NCCL's waits for a step of protocol Simple", "[core][cost]") {
  const ClusterSpec c = h200(2);
  CHECK(link_between(c, 0, 1).latency.v == Approx(3.4e-6));
  CHECK(link_between(c, 0, 8).latency.v == Approx(14e-6));
}

}  // namespace
}  // namespace lockstep
