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

double efficiency(const DeviceSpec& device, std::string_view kernel, Seconds ideal) {
  for (const EfficiencyCurve& curve : device.efficiency) {
    if (curve.kernel == kernel) return interpolate(curve.points, ideal);
  }
  return 1.0;
}

Seconds transfer_time(Bytes bytes, BytesPerSecond bandwidth) {
  return bandwidth.v > 0 ? bytes / bandwidth : Seconds{};
}

int node_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_node());
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
  return device.launch_overhead +
         Seconds{ideal.v / efficiency(device, info(kernel.kind).name, ideal)};
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

TransferTime collective_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link) {
  if (group_size <= 1) return {};
  const double steps = group_size - 1;
  const Seconds all = transfer_time(full, link.bandwidth);
  const Seconds ring = (steps / group_size) * all;
  switch (kind) {
    case OpKind::AllReduce:
      return {(2 * steps) * link.latency, 2.0 * ring};
    case OpKind::AllGather:
    case OpKind::ReduceScatter:
    case OpKind::AllToAll:
      return {steps * link.latency, ring};
    case OpKind::Broadcast:
      return {steps * link.latency, all};
    default:
      return {};
  }
}

TransferTime p2p_time(Bytes bytes, const LinkSpec& link) {
  return {link.latency, transfer_time(bytes, link.bandwidth)};
}

LinkSpec link_between(const ClusterSpec& cluster, Rank a, Rank b) {
  return node_of(cluster, a) == node_of(cluster, b) ? cluster.intra_node : cluster.inter_node;
}

LinkSpec slowest_link(const ClusterSpec& cluster, const std::vector<Rank>& ranks) {
  bool intra = ranks.size() < 2;
  bool inter = false;
  for (std::size_t i = 1; i < ranks.size(); ++i) {  // neighbours along the ring
    const bool same = node_of(cluster, ranks[i - 1]) == node_of(cluster, ranks[i]);
    intra |= same;
    inter |= !same;
  }
  if (!inter) return cluster.intra_node;
  if (!intra) return cluster.inter_node;
  const LinkSpec& a = cluster.intra_node;
  const LinkSpec& b = cluster.inter_node;
  if (a.bandwidth != b.bandwidth) return a.bandwidth < b.bandwidth ? a : b;
  return a.latency > b.latency ? a : b;
}

}  // namespace lockstep
