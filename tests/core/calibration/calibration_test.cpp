#include "core/calibration/calibration.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

Kernel gemm(std::int64_t rows) {
  return calibration_kernel(KernelKind::Gemm, DType::F32, {rows, 8, 4, 0, 0});
}

DeviceSpec device() {
  DeviceSpec device;
  device.peaks = {{DType::F32, {1e9}}};
  device.memory_bandwidth = {1e12};
  device.launch_overhead = {1e-8};
  return device;
}

TEST_CASE("kernels do the same work wherever their operands lie", "[core][calibration]") {
  Kernel elsewhere = gemm(16);
  elsewhere.in[0].formal = 7;
  elsewhere.out[0].offset = 256;
  CHECK(same_work(gemm(16), elsewhere));
  CHECK_FALSE(same_work(gemm(16), gemm(32)));
  Kernel adds = gemm(16);
  adds.accumulate = true;
  CHECK_FALSE(same_work(gemm(16), adds));
  const Kernel half = calibration_kernel(KernelKind::Scale, DType::F32, {64}, {0.5});
  CHECK(same_work(half, calibration_kernel(KernelKind::Scale, DType::F32, {64}, {0.25})));
}

TEST_CASE("kernels that become one point of a curve take together what was measured",
          "[core][calibration]") {
  DeviceSpec measured = device();
  Kernel transposed = gemm(1000);
  transposed.dims[3] = 1;  // as much arithmetic, and another kernel
  const double ideal = work(gemm(1000)).flops.v / 1e9;
  // Three that reach the peak and one that takes five times as long: 8 times in all.
  add_measurements(measured, {{gemm(1000), ideal + 1e-8, 3}, {transposed, 5 * ideal + 1e-8, 1}});
  REQUIRE(measured.efficiency.size() == 1);
  REQUIRE(measured.efficiency[0].points.size() == 1);
  CHECK(measured.efficiency[0].points[0].efficiency == Approx(0.5));
  CHECK(measured.efficiency[0].points[0].ideal.v == Approx(ideal));
}

TEST_CASE("kernels of other sizes are points of their own", "[core][calibration]") {
  DeviceSpec measured = device();
  const double ideal = work(gemm(1000)).flops.v / 1e9;
  add_measurements(measured,
                   {{gemm(2000), 4 * ideal + 1e-8, 1}, {gemm(1000), 4 * ideal + 1e-8, 1}});
  REQUIRE(measured.efficiency.size() == 1);
  REQUIRE(measured.efficiency[0].points.size() == 2);
  CHECK(measured.efficiency[0].points[0].efficiency == Approx(0.25));
  CHECK(measured.efficiency[0].points[1].efficiency == Approx(0.5));
}

TEST_CASE("what has nothing to do has no efficiency", "[core][calibration]") {
  DeviceSpec measured = device();
  add_measurements(measured, {{calibration_kernel(KernelKind::Delay, DType::F32, {}), 1, 1}});
  CHECK(measured.efficiency.empty());
}

}  // namespace
}  // namespace lockstep
