#include "core/cost/cost.hpp"

#include <algorithm>
#include <cmath>

namespace lockstep {
namespace {

/// Linear in log(ideal) between the measured points, the nearest point outside them.
double interpolate(const std::vector<EfficiencyPoint>& points, Seconds ideal) {
  if (points.empty()) return 1.0;
  if (ideal <= points.front().ideal) return points.front().efficiency;
  if (ideal >= points.back().ideal) return points.back().efficiency;
  const auto above =
      std::upper_bound(points.begin(), points.end(), ideal,
                       [](Seconds t, const EfficiencyPoint& p) { return t < p.ideal; });
  const EfficiencyPoint& hi = *above;
  const EfficiencyPoint& lo = *(above - 1);
  const double x = std::log(ideal.v / lo.ideal.v) / std::log(hi.ideal.v / lo.ideal.v);
  return lo.efficiency + x * (hi.efficiency - lo.efficiency);
}

/// By the kernel's own curve; else by that of the kernel which its row says it goes as well as, at
/// the same ideal time; else by "*"; else full.
double efficiency(const DeviceSpec& device, const KernelRow& row, Seconds ideal) {
  const auto curve_of = [&](std::string_view name) -> const EfficiencyCurve* {
    for (const EfficiencyCurve& curve : device.efficiency) {
      if (curve.kernel == name) return &curve;
    }
    return nullptr;
  };
  const EfficiencyCurve* curve = curve_of(row.name);
  if (curve == nullptr && !row.efficiency_as.empty()) curve = curve_of(row.efficiency_as);
  if (curve == nullptr) curve = curve_of("*");
  return curve == nullptr ? 1.0 : interpolate(curve->points, ideal);
}

Seconds transfer_time(Bytes bytes, BytesPerSecond bandwidth) {
  return bandwidth.v > 0 ? bytes / bandwidth : Seconds{};
}

}  // namespace

FlopsPerSecond peak_rate(const DeviceSpec& device, DType dtype) {
  const PeakRate* next_wider = nullptr;
  const PeakRate* widest = nullptr;
  for (const PeakRate& peak : device.peaks) {
    if (peak.dtype == dtype) return peak.rate;
    if (size_of(peak.dtype) > size_of(dtype) &&
        (next_wider == nullptr || size_of(peak.dtype) < size_of(next_wider->dtype))) {
      next_wider = &peak;
    }
    if (widest == nullptr || size_of(peak.dtype) > size_of(widest->dtype)) widest = &peak;
  }
  if (next_wider != nullptr) return next_wider->rate;
  if (widest == nullptr) return {};
  return {widest->rate.v * static_cast<double>(size_of(widest->dtype)) /
          static_cast<double>(size_of(dtype))};
}

Seconds kernel_time(const Kernel& kernel, const DeviceSpec& device) {
  if (kernel.kind == KernelKind::Delay) return {kernel.scalars[0]};
  const Work w = work(kernel);
  const FlopsPerSecond peak = peak_rate(device, kernel.dtype);
  const Seconds compute = peak.v > 0 ? w.flops / peak : Seconds{};
  const Seconds ideal = std::max(compute, transfer_time(w.bytes, device.memory_bandwidth));
  return device.launch_overhead + Seconds{ideal.v / efficiency(device, info(kernel.kind), ideal)};
}

Seconds function_time(const Function& function, const DeviceSpec& device) {
  Seconds total;
  for (const Kernel& kernel : function.kernels) total += kernel_time(kernel, device);
  return total;
}

DeviceSpec host_of(const DeviceSpec& device) {
  if (!(device.host_memory_bandwidth.v > 0)) return device;
  DeviceSpec host;
  host.name = device.name + "'s host";
  host.memory_bandwidth = device.host_memory_bandwidth;
  return host;
}

}  // namespace lockstep
