#include "backends/cpu/calibrate.hpp"

#include <set>
#include <string>
#include <tuple>

#include "core/ir/kernels/kernel.hpp"
#include "tests/catch.hpp"

namespace lockstep::cpu {
namespace {

TEST_CASE("calibration fills every figure that the cost model reads", "[backends][cpu]") {
  const Result<ClusterSpec> result = calibrate_cpu({true, 8});
  REQUIRE(result.ok());
  const ClusterSpec& cluster = *result;
  CHECK(cluster.capacity() == 8);
  const DeviceSpec& device = cluster.device;
  CHECK(device.memory.v > 0);
  CHECK(device.concurrent_ranks >= 1);
  CHECK(device.memory_bandwidth.v > 0);
  CHECK(device.launch_overhead.v > 0);
  CHECK(cluster.intra_node.bandwidth.v > 0);
  CHECK(device.hand_over.v > 0);
  REQUIRE(device.peaks.size() == 3);
  // One vector register holds half as many float64 as float32.
  CHECK(device.peaks[0].rate.v > device.peaks[1].rate.v);

  std::set<std::string_view> kinds;
  for (int k = 0; k < kNumKernelKinds; ++k) kinds.insert(info(static_cast<KernelKind>(k)).name);
  std::set<std::tuple<std::string, std::int64_t, CurveType>> curves;
  std::set<std::string> wide, narrow;
  for (const EfficiencyCurve& curve : device.efficiency) {
    INFO(curve.kernel << " of width " << curve.width);
    CHECK(curves.emplace(curve.kernel, curve.width, curve.dtype).second);
    const bool is_narrow = curve.dtype == CurveType::BF16;
    CHECK((is_narrow || curve.dtype == CurveType::All));
    (is_narrow ? narrow : wide).insert(curve.kernel);
    CHECK((is_narrow || kinds.erase(curve.kernel) == 1 || curve.width > 0));
    REQUIRE_FALSE(curve.points.empty());
    for (std::size_t i = 0; i < curve.points.size(); ++i) {
      CHECK(curve.points[i].efficiency > 0);
      if (i > 0) CHECK(curve.points[i].ideal > curve.points[i - 1].ideal);
    }
  }
  CHECK(narrow == wide);
  // The first four have nothing to measure: a handful of scalars, and given seconds. The others do
  // what experts send them; they are taken to go as well as kernels that are measured.
  CHECK(kinds == std::set<std::string_view>{"clip_coefficient", "delay", "delayed_scale", "largest",
                                            "ragged_activation_backward",
                                            "ragged_activation_forward", "ragged_gemm",
                                            "ragged_gemm_weight", "ragged_quantize",
                                            "ragged_scaled_gemm", "ragged_scaled_gemm_weight"});
}

}  // namespace
}  // namespace lockstep::cpu
