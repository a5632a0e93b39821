#include "core/cost/cost.hpp"

#include <cmath>
#include <numeric>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

Kernel gemm(std::int64_t m, std::int64_t n, std::int64_t k) {
  Kernel kernel;
  kernel.kind = KernelKind::Gemm;
  kernel.dims = {m, n, k, 0, 0};
  kernel.in = {{0}, {1}};
  kernel.out = {{2}};
  return kernel;
}

DeviceSpec device() {
  DeviceSpec d;
  d.peaks = {{DType::F32, {1e12}}, {DType::BF16, {8e12}}};
  d.memory_bandwidth = {1e11};
  return d;
}

TEST_CASE("a kernel takes the larger of its arithmetic and its memory time", "[core][cost]") {
  // 1024³: 2·2^30 flop at 1 Tflop/s = 2.15 ms; 3·4 MiB at 100 GB/s = 0.126 ms.
  CHECK(kernel_time(gemm(1024, 1024, 1024), device()).v == Approx(2.0 * std::pow(2, 30) / 1e12));
  // A thin one: 2·2^20 flop = 2.1 us; 4·(2^20 + 2·2^10) bytes = 42 us.
  const double bytes = 4.0 * (1024.0 * 1024 + 2 * 1024);
  CHECK(kernel_time(gemm(1, 1024, 1024), device()).v == Approx(bytes / 1e11));
}

TEST_CASE("launch overhead is paid once per kernel and not by a delay", "[core][cost]") {
  DeviceSpec d = device();
  const Seconds bare = kernel_time(gemm(64, 64, 64), d);
  d.launch_overhead = {1e-3};
  CHECK(kernel_time(gemm(64, 64, 64), d).v == Approx(bare.v + 1e-3));
  Kernel delay;
  delay.kind = KernelKind::Delay;
  delay.scalars[0] = 0.25;
  CHECK(kernel_time(delay, d).v == 0.25);
  const Function f{"f", {}, {gemm(64, 64, 64), delay, delay}};
  CHECK(function_time(f, d).v == Approx(bare.v + 1e-3 + 0.5));
}

TEST_CASE("efficiency is linear in the logarithm of the ideal time and flat outside",
          "[core][cost]") {
  DeviceSpec d = device();
  d.memory_bandwidth = {};
  d.efficiency = {{"gemm", {{{1e-6}, 0.2}, {{1e-4}, 0.6}, {{1e-2}, 0.8}}}};
  const auto efficiency = [&](double ideal) {
    return ideal / kernel_time(gemm(1, 1, std::llround(ideal * 1e12 / 2)), d).v;
  };
  CHECK(efficiency(1e-8) == Approx(0.2));
  CHECK(efficiency(1e-6) == Approx(0.2));
  CHECK(efficiency(1e-5) == Approx(0.4));
  CHECK(efficiency(1e-4) == Approx(0.6));
  CHECK(efficiency(1e-3) == Approx(0.7));
  CHECK(efficiency(1) == Approx(0.8));
}

TEST_CASE("a kernel without a curve takes that of '*', a convolution that of products",
          "[core][cost]") {
  DeviceSpec d = device();
  const auto slowed = [&](KernelKind kind, std::vector<std::int64_t> dims) {
    Kernel k;
    k.kind = kind;
    k.dtype = DType::F32;
    std::copy(dims.begin(), dims.end(), k.dims.begin());
    const double whole = kernel_time(k, DeviceSpec(device())).v - d.launch_overhead.v;
    return (kernel_time(k, d).v - d.launch_overhead.v) / whole;
  };
  const auto gelu = [&] { return slowed(KernelKind::GeluForward, {1 << 20}); };
  const auto conv = [&] { return slowed(KernelKind::Conv2dForward, {4, 8, 8, 64, 64, 3, 1}); };
  CHECK(gelu() == Approx(1));
  d.efficiency = {{"gemm", {{{1e-4}, 0.5}}}};
  CHECK(gelu() == Approx(1));
  CHECK(conv() == Approx(2));
  d.efficiency.push_back({"*", {{{1e-4}, 0.8}}});
  CHECK(gelu() == Approx(1.25));
  CHECK(conv() == Approx(2));
  d.efficiency.push_back({"conv2d_forward", {{{1e-4}, 0.25}}});
  CHECK(conv() == Approx(4));
}

TEST_CASE("an unlisted dtype runs at the peak of the next wider one", "[core][cost]") {
  CHECK(peak_rate(device(), DType::BF16).v == 8e12);
  CHECK(peak_rate(device(), DType::F16).v == 1e12);
  CHECK(peak_rate(device(), DType::F32).v == 1e12);
  CHECK(peak_rate(device(), DType::F64).v == 0.5e12);  // wider than all: by the ratio of sizes
  CHECK(peak_rate(DeviceSpec{}, DType::F32).v == 0);
}

TEST_CASE("ring collectives take (n-1) steps, all-reduce twice as many", "[core][cost]") {
  const LinkSpec link{{1e9}, {1e-6}};
  const Bytes size{1 << 20};
  for (const int n : {1, 2, 3, 4, 7, 8, 16, 24, 32}) {
    CAPTURE(n);
    const double step = 1e-6 + double(size.v) / (n * 1e9);
    CHECK(collective_time(OpKind::AllGather, size, n, link).total().v == Approx((n - 1) * step));
    CHECK(collective_time(OpKind::ReduceScatter, size, n, link).total().v ==
          Approx((n - 1) * step));
    CHECK(collective_time(OpKind::AllToAll, size, n, link).total().v == Approx((n - 1) * step));
    CHECK(collective_time(OpKind::AllReduce, size, n, link).total().v ==
          Approx(2 * (n - 1) * step));
  }
  CHECK(collective_time(OpKind::Broadcast, size, 5, link).total().v ==
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
    return collective_time(kind, {3200}, 32, group_links(cluster, ranks).of(kind)).transfer.v;
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
  const TransferTime time = collective_time(OpKind::AllReduce, size, 32,
                                            group_links(cluster, ranks).of(OpKind::AllReduce));
  CHECK(time.total().v == Approx(87.2e-3).epsilon(0.01));
}

TEST_CASE("the node with fewest ports holds up the others", "[core][cost]") {
  // Three members on one node, one on the other: that one takes in 3/4 through a single port.
  ClusterSpec cluster = two_links(2, 4, 1);
  cluster.intra_node.bandwidth = {1e6};
  const TransferTime time =
      collective_time(OpKind::AllGather, {400}, 4, group_links(cluster, {1, 2, 3, 4}).ring);
  CHECK(time.transfer.v == Approx(400 * 0.75 / 10));
  // Ranks that share a device share its port: two devices carry four members' exchange.
  cluster = two_links(2, 2, 2);
  cluster.intra_node.bandwidth = {1e6};
  const GroupLinks shared = group_links(cluster, {0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(collective_time(OpKind::AllToAll, {800}, 8, shared.exchange).transfer.v ==
        Approx(2 * 400.0 / 10));
}

}  // namespace
}  // namespace lockstep
