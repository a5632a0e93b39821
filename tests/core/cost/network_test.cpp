#include "core/cost/network.hpp"

#include <numeric>

#include "core/cost/collective.hpp"
#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("ring collectives take (n-1) steps, all-reduce twice as many", "[core][cost]") {
  const LinkSpec link{{1e9}, {1e-6}};
  const Bytes size{1 << 20};
  for (const int n : {1, 2, 3, 4, 7, 8, 16, 24, 32}) {
    CAPTURE(n);
    const double step = 1e-6 + double(size.v) / (n * 1e9);
    CHECK(ring_time(OpKind::AllGather, size, n, link).total().v == Approx((n - 1) * step));
    CHECK(ring_time(OpKind::ReduceScatter, size, n, link).total().v == Approx((n - 1) * step));
    CHECK(ring_time(OpKind::AllToAll, size, n, link).total().v == Approx((n - 1) * step));
    const double message = n > 1 ? p2p_time(size, link).total().v : 0;
    CHECK(ring_time(OpKind::Rotate, size, n, link).total().v == message);
    CHECK(ring_time(OpKind::AllReduce, size, n, link).total().v == Approx(2 * (n - 1) * step));
  }
  CHECK(ring_time(OpKind::Broadcast, size, 5, link).total().v ==
        Approx(4e-6 + double(size.v) / 1e9));
  const TransferTime message = p2p_time({500}, {{1000}, {2}});
  CHECK(message.latency.v == 2);
  CHECK(message.transfer.v == 0.5);
}

/// 100 bytes/s and 1 s inside a node, 10 bytes/s and 5 s between nodes.
ClusterSpec two_links(int nodes, int devices_per_node, int ranks_per_device) {
  ClusterSpec cluster;
  cluster.nodes = nodes;
  cluster.devices_per_node = devices_per_node;
  cluster.ranks_per_device = ranks_per_device;
  cluster.intra_node = {{100}, {1}};
  cluster.inter_node = {{10}, {5}};
  return cluster;
}

TEST_CASE("ranks fill devices and nodes in order", "[core][cost]") {
  const ClusterSpec cluster = two_links(2, 2, 2);
  CHECK(link_between(cluster, 0, 3) == cluster.intra_node);
  CHECK(link_between(cluster, 3, 4) == cluster.inter_node);
}

TEST_CASE("a group inside a node has the node's links", "[core][cost]") {
  const ClusterSpec cluster = two_links(2, 2, 2);
  CHECK(group_links(cluster, {0, 1, 2, 3}).ring == cluster.intra_node);
  CHECK(group_links(cluster, {4, 6}).exchange == cluster.intra_node);
  CHECK(group_links(cluster, {5}).ring == cluster.intra_node);
}

TEST_CASE("a group with one member on each node has one port each", "[core][cost]") {
  const ClusterSpec cluster = two_links(4, 2, 1);
  CHECK(group_links(cluster, {0, 2, 4, 6}).ring == cluster.inter_node);
  CHECK(group_links(cluster, {1, 3, 5}).exchange == cluster.inter_node);
}

TEST_CASE("a collective over whole nodes uses every port of a node", "[core][cost]") {
  // n = 32 ranks on k = 4 nodes: what a node lacks, S(k-1)/k, comes through 8 ports.
  ClusterSpec cluster = two_links(4, 8, 1);
  std::vector<Rank> ranks(32);
  std::iota(ranks.begin(), ranks.end(), 0);
  const auto gather = [&](OpKind kind) {
    return ring_time(kind, {3200}, 32, group_links(cluster, ranks).of(kind)).transfer.v;
  };
  cluster.intra_node.bandwidth = {1e6};
  CHECK(gather(OpKind::AllGather) == Approx(3200 * 0.75 / (8 * 10)));
  CHECK(gather(OpKind::AllReduce) == Approx(2 * 3200 * 0.75 / (8 * 10)));
  // Of its 3200 bytes a member sends 24/32 to other nodes, through its own port.
  CHECK(gather(OpKind::AllToAll) == Approx(3200 * 0.75 / 10));
  CHECK(group_links(cluster, ranks).ring.latency == cluster.inter_node.latency);
  // Links inside the node are the limit: a rank takes in 31/32 of all over its own.
  cluster.intra_node.bandwidth = {20};
  CHECK(gather(OpKind::AllGather) == Approx(3200 * 31.0 / 32 / 20));
}

TEST_CASE("the published bus bandwidth of 32 B200 follows from the rate of a port",
          "[core][cost]") {
  // stas00/ml-engineering, network: 4 nodes of 8, all-reduce of 16 GiB at 381.8 GB/s, 87.2 ms; one
  // node 845.7 GB/s. The port's rate is the profile's, hardware/b200.toml.
  ClusterSpec cluster = two_links(4, 8, 1);
  cluster.intra_node = {{845.7e9}, {3.4e-6}};
  cluster.inter_node = {{37.0e9}, {5.8e-6}};
  std::vector<Rank> ranks(32);
  std::iota(ranks.begin(), ranks.end(), 0);
  const Bytes size{std::int64_t{1} << 34};
  const TransferTime time =
      ring_time(OpKind::AllReduce, size, 32, group_links(cluster, ranks).of(OpKind::AllReduce));
  CHECK(time.total().v == Approx(87.2e-3).epsilon(0.01));
}

TEST_CASE("the node with fewest ports holds up the others", "[core][cost]") {
  // Three members on one node, one on the other: that one takes in 3/4 through a single port.
  ClusterSpec cluster = two_links(2, 4, 1);
  cluster.intra_node.bandwidth = {1e6};
  const TransferTime time =
      ring_time(OpKind::AllGather, {400}, 4, group_links(cluster, {1, 2, 3, 4}).ring);
  CHECK(time.transfer.v == Approx(400 * 0.75 / 10));
  // Ranks that share a device share its port: two devices carry four members' exchange.
  cluster = two_links(2, 2, 2);
  cluster.intra_node.bandwidth = {1e6};
  const GroupLinks shared = group_links(cluster, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(ring_time(OpKind::AllToAll, {800}, 8, shared.exchange).transfer.v ==
        Approx(2 * 400.0 / 10));
}

TEST_CASE("fewer ports than devices are divided among the devices of a node", "[core][cost]") {
  ClusterSpec cluster = two_links(4, 8, 1);
  cluster.intra_node.bandwidth = {1e6};
  std::vector<Rank> all(32);
  std::iota(all.begin(), all.end(), 0);
  const double own = group_links(cluster, all).ring.bandwidth.v;
  cluster.network.ports_per_node = 4;  // two devices share one of 10 bytes/s
  CHECK(group_links(cluster, all).ring.bandwidth.v == Approx(own / 2));
  CHECK(link_between(cluster, 0, 8).bandwidth.v == Approx(5));
  // The gradients of two tensor-parallel ranks: groups of every second device. Both at once carry
  // what one group of all devices would, each through half of the node's ports.
  std::vector<Rank> even;
  for (Rank r = 0; r < 32; r += 2) even.push_back(r);
  const GroupLinks half = group_links(cluster, even);
  CHECK(half.ports.v == Approx(4 * 5));
  CHECK(ring_time(OpKind::AllGather, {1600}, 16, half.ring).transfer.v ==
        Approx(1600 * 0.75 / (4 * 5)));
}

TEST_CASE("rings through some of a node's devices share what connects its processors",
          "[core][cost]") {
  ClusterSpec cluster = two_links(2, 4, 1);
  const double free = group_links(cluster, {0, 2, 4, 6}).ring.bandwidth.v;
  CHECK(free == Approx(10.0 * 2 * 3 / 2));  // two ports, (n-1)/(n-m)
  cluster.network.sockets = {8};            // 16 both ways, for four devices: 4 each instead of 10
  const GroupLinks some = group_links(cluster, {0, 2, 4, 6});
  CHECK(some.ring.bandwidth.v == Approx(0.4 * free));
  CHECK(some.ports.v == Approx(8.0));
  CHECK(group_links(cluster, {0, 4}).ring.bandwidth.v == 10.0);  // one device a node
  const GroupLinks all = group_links(cluster, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(all.ports.v == Approx(40.0));  // the first device is next to the last one
}

TEST_CASE("a node without a switch has a link to each neighbour", "[core][cost]") {
  ClusterSpec cluster = two_links(2, 8, 1);
  cluster.network.switched = false;
  CHECK(link_between(cluster, 0, 5).bandwidth.v == Approx(100.0 / 7));
  CHECK(group_links(cluster, {0, 1, 2, 3}).ring.bandwidth.v == Approx(300.0 / 7));
  CHECK(group_links(cluster, {0, 1, 2, 3, 4, 5, 6, 7}).ring == cluster.intra_node);
}

TEST_CASE("rings cross a spine once per leaf, exchanges and messages with all of their data",
          "[core][cost]") {
  // Eight nodes of one device, four to a leaf; an uplink for every fourth of a leaf's ports.
  ClusterSpec cluster = two_links(8, 1, 1);
  cluster.network.leaf_ports = 4;
  cluster.network.oversubscription = 4;
  cluster.network.spine_latency = {8};
  const GroupLinks all = group_links(cluster, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(all.leaves == 2);
  CHECK(all.ring.bandwidth.v == Approx(10));  // one ring a leaf, and one uplink
  CHECK(all.ring.latency.v == Approx(5 + 8 * 2.0 / 8));
  // Of what leaves a node 4/7 goes to the other leaf: 4 nodes · 4/7 · b through one port of 10.
  CHECK(all.exchange.bandwidth.v == Approx(10.0 / 4 * 7 / 4));
  CHECK(link_between(cluster, 0, 3).bandwidth.v == 10);
  CHECK(link_between(cluster, 0, 4).bandwidth.v == 2.5);
  CHECK(link_between(cluster, 0, 4).latency.v == 13);
  // Four groups of one node in each leaf: four rings through one uplink.
  CHECK(group_links(cluster, {1, 5}).ring.bandwidth.v == Approx(2.5));
  CHECK(group_links(cluster, {0, 1, 2, 3}).ring.bandwidth.v == 10);
}

TEST_CASE("without rails a leaf takes all ports of its nodes", "[core][cost]") {
  ClusterSpec cluster = two_links(8, 4, 1);
  cluster.network.leaf_ports = 16;
  std::vector<Rank> all(32);
  std::iota(all.begin(), all.end(), 0);
  CHECK(group_links(cluster, all).leaves == 1);  // sixteen nodes could be on it
  cluster.network.rails = false;
  CHECK(group_links(cluster, all).leaves == 2);  // four nodes of four ports
}

}  // namespace
}  // namespace lockstep
