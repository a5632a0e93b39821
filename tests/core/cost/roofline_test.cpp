#include <cmath>

#include "core/cost/kernel_time.hpp"
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

TEST_CASE("efficiency is linear in the logarithm of the width between two curves", "[core][cost]") {
  DeviceSpec d = device();
  d.efficiency = {{"attention_forward", {{{1e-4}, 0.2}}, 16},
                  {"attention_forward", {{{1e-4}, 0.6}}, 64}};
  const auto efficiency = [&](std::int64_t head_dim) {
    Kernel k;
    k.kind = KernelKind::AttentionForward;
    k.dims = {1, 1024, 8, 8, head_dim};
    k.in = {{0}};
    k.out = {{1}, {2}};
    return kernel_time(k, device()).v / kernel_time(k, d).v;
  };
  CHECK(efficiency(8) == Approx(0.2));
  CHECK(efficiency(16) == Approx(0.2));
  CHECK(efficiency(32) == Approx(0.4));
  CHECK(efficiency(64) == Approx(0.6));
  CHECK(efficiency(128) == Approx(0.6));
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

TEST_CASE("kernels of a type with curves of its own go by them, all others by those of all types",
          "[core][cost]") {
  DeviceSpec d;
  d.peaks = {{DType::F32, {1e12}}};
  d.memory_bandwidth = {1e18};
  d.efficiency = {{"gemm", {{{1e-4}, 0.5}}}, {"gemm", {{{1e-4}, 4.0}}, 0, CurveType::BF16}};
  const auto time_of = [&](DType dtype) {
    Kernel k;
    k.kind = KernelKind::Gemm;
    k.dtype = dtype;
    k.dims = {100, 100, 100, 0, 0};
    k.in = {{0, dtype, 0}, {1, dtype, 0}, {}};
    k.out = {{2, dtype, 0}};
    return kernel_time(k, d).v;
  };
  CHECK(time_of(DType::F32) == Approx(2e6 / 1e12 / 0.5));
  CHECK(time_of(DType::F16) == Approx(2e6 / 1e12 / 0.5));
  CHECK(time_of(DType::BF16) == Approx(2e6 / 1e12 / 4.0));
  // One of another kernel's type says nothing where the kernel has a curve of all types.
  d.efficiency[1].kernel = "*";
  CHECK(time_of(DType::BF16) == Approx(2e6 / 1e12 / 0.5));
}

TEST_CASE("an unlisted dtype runs at the peak of the next wider one", "[core][cost]") {
  CHECK(peak_rate(device(), DType::BF16).v == 8e12);
  CHECK(peak_rate(device(), DType::F16).v == 1e12);
  CHECK(peak_rate(device(), DType::F32).v == 1e12);
  CHECK(peak_rate(device(), DType::F64).v == 0.5e12);  // wider than all: by the ratio of sizes
  CHECK(peak_rate(DeviceSpec{}, DType::F32).v == 0);
}

}  // namespace
}  // namespace lockstep
