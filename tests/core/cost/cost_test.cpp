#include "core/cost/cost.hpp"

#include <cmath>

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

TEST_CASE("ranks fill devices and nodes in order", "[core][cost]") {
  ClusterSpec cluster;
  cluster.nodes = 2;
  cluster.devices_per_node = 2;
  cluster.ranks_per_device = 2;
  cluster.intra_node = {{100}, {1}};
  cluster.inter_node = {{10}, {5}};
  CHECK(link_between(cluster, 0, 3) == cluster.intra_node);
  CHECK(link_between(cluster, 3, 4) == cluster.inter_node);
  CHECK(slowest_link(cluster, {0, 1, 2, 3}) == cluster.intra_node);
  CHECK(slowest_link(cluster, {0, 4}) == cluster.inter_node);
  CHECK(slowest_link(cluster, {2, 3, 4}) == cluster.inter_node);
  cluster.inter_node.bandwidth = {1000};  // links inside a node are the slower ones now
  CHECK(slowest_link(cluster, {2, 3, 4}) == cluster.intra_node);
  CHECK(slowest_link(cluster, {0, 4}) == cluster.inter_node);
}

}  // namespace
}  // namespace lockstep
