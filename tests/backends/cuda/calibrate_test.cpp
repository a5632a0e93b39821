#include "backends/cuda/calibrate.hpp"

#include <algorithm>

#include "core/calibration/calibration.hpp"
#include "tests/backends/cuda/fake_gpu.hpp"
#include "tests/catch.hpp"

namespace lockstep::cuda {
namespace {

test::FakeKernels two_kinds() {
  test::FakeKernels kernels;
  kernels.supports = [](const Kernel& kernel) {
    return kernel.kind == KernelKind::GeluForward || kernel.kind == KernelKind::LayerNormForward;
  };
  return kernels;
}

}  // namespace

TEST_CASE("calibration of a GPU fills every figure and releases what it took", "[backends][cuda]") {
  test::FakeGpu gpu(1, two_kinds());
  const auto cluster = calibrate_gpu(gpu, {.quick = true, .ranks_per_device = 8});
  REQUIRE(cluster.ok());
  CHECK(cluster->capacity() == 8);
  const DeviceSpec& device = cluster->device;
  CHECK(device.name == gpu.info().name);
  CHECK(device.memory == gpu.info().memory);
  REQUIRE(device.peaks.size() == 4);
  CHECK(device.peaks[0].dtype == DType::BF16);
  for (const PeakRate& peak : device.peaks) CHECK(peak.rate.v > 0);
  CHECK(device.memory_bandwidth.v > 0);
  CHECK(device.host_bandwidth.v > 0);
  // On the fake clock every item takes a microsecond, so a launch is one.
  CHECK(device.launch_overhead.v == Approx(1e-6).epsilon(0.02));
  CHECK(cluster->intra_node.bandwidth.v > 0);
  REQUIRE(device.efficiency.size() == 2);
  CHECK(gpu.alive.empty());
}

TEST_CASE("efficiencies are told by the peak of the type that kernels are measured in",
          "[backends][cuda]") {
  for (const DType dtype : {DType::F32, DType::F64, DType::BF16}) {
    auto kernels = two_kinds();
    kernels.supports = [=](const Kernel& kernel) {
      return kernel.dtype == dtype && kernel.kind == KernelKind::GeluForward;
    };
    test::FakeGpu gpu(1, kernels);
    const auto cluster = calibrate_gpu(gpu, {.quick = true, .dtype = dtype});
    REQUIRE(cluster.ok());
    REQUIRE(cluster->device.peaks.size() == 4);
    CHECK(cluster->device.peaks.front().dtype == dtype);
    CHECK(cluster->device.efficiency.size() == 1);
  }
}

TEST_CASE("one kernel is timed on its own, and a failing driver says so", "[backends][cuda]") {
  const Kernel gelu = calibration_kernel(KernelKind::GeluForward, DType::BF16, {1000});
  test::FakeGpu gpu(1, two_kinds());
  const auto seconds = measure(gpu, gelu, 2, 100);
  REQUIRE(seconds.ok());
  CHECK(seconds->v == Approx(1e-6).epsilon(0.02));  // an item of the fake clock
  CHECK(std::count(gpu.log.begin(), gpu.log.end(), "launch gelu_forward") == 1 + 2 * 100);
  CHECK(gpu.alive.empty());
  test::FakeGpu broken(1, two_kinds());
  broken.failing = "record";
  CHECK_FALSE(measure(broken, gelu, 2, 100).ok());
  CHECK(broken.alive.empty());
}

TEST_CASE("a driver call that fails ends calibration with its error", "[backends][cuda]") {
  for (const char* call : {"allocate", "create_stream", "copy", "record", "elapsed"}) {
    INFO(call);
    test::FakeGpu gpu(1, two_kinds());
    gpu.failing = call;
    const auto cluster = calibrate_gpu(gpu, {.quick = true});
    REQUIRE_FALSE(cluster.ok());
    CHECK_THAT(cluster.error().message, ContainsSubstring(call));
    CHECK(gpu.alive.empty());
  }
}

}  // namespace lockstep::cuda
