#include "core/cost/cost.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/ir/ring.hpp"

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

int node_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_node());
}
int device_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_device);
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

TransferTime collective_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link) {
  if (group_size <= 1) return {};
  const double steps = group_size - 1;
  const Seconds all = transfer_time(full, link.bandwidth);
  const Seconds ring = (steps / group_size) * all;
  const double rounds = ring_rounds(kind);
  if (rounds == 0) return {};
  // A broadcast passes the whole on in pieces: all members but the last send at once.
  return {(rounds * steps) * link.latency, kind == OpKind::Broadcast ? all : rounds * ring};
}

TransferTime p2p_time(Bytes bytes, const LinkSpec& link) {
  return {link.latency, transfer_time(bytes, link.bandwidth)};
}

LinkSpec link_between(const ClusterSpec& cluster, Rank a, Rank b) {
  return node_of(cluster, a) == node_of(cluster, b) ? cluster.intra_node : cluster.inter_node;
}

GroupLinks group_links(const ClusterSpec& cluster, const std::vector<Rank>& ranks) {
  const auto n = static_cast<double>(ranks.size());
  const double port = cluster.inter_node.bandwidth.v;
  double ring = std::numeric_limits<double>::infinity(), exchange = ring;
  bool inside = false;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last) {  // by node
    double devices = 0;
    int device = -1;
    while (last < ranks.size() && node_of(cluster, ranks[last]) == node_of(cluster, ranks[first])) {
      if (device_of(cluster, ranks[last]) != device) ++devices;
      device = device_of(cluster, ranks[last++]);
    }
    const auto members = static_cast<double>(last - first);
    if (members == n) return {cluster.intra_node, cluster.intra_node};
    const double ports = devices * (n - 1) / (n - members);
    ring = std::min(ring, port * ports);
    exchange = std::min(exchange, port * ports / members);
    inside |= members > 1;
  }
  if (ranks.empty()) return {cluster.intra_node, cluster.intra_node};
  const auto link = [&](double bandwidth) {
    const double intra = cluster.intra_node.bandwidth.v;
    const bool bounded = inside && intra > 0;
    return LinkSpec{{bounded ? std::min(bandwidth, intra) : bandwidth}, cluster.inter_node.latency};
  };
  return {link(ring), link(exchange)};
}

}  // namespace lockstep
