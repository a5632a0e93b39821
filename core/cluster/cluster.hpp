// ClusterSpec: where to train, that is, devices, nodes and links with the figures that the cost
// model needs.
#pragma once

#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"

namespace lockstep {

/// One measured point of an efficiency curve: a kernel whose roofline time is `ideal` takes
/// ideal / efficiency.
struct EfficiencyPoint {
  Seconds ideal;
  double efficiency = 1;  // in (0, 1] for honest peaks; above 1 where caches beat the memory figure
  bool operator==(const EfficiencyPoint&) const = default;
};

/// Measured efficiency of one kind of kernel, named as in the program text ("gemm"), by ascending
/// roofline time. Between two points the efficiency is linear in log(ideal); outside them it is
/// that of the nearest point.
struct EfficiencyCurve {
  std::string kernel;
  std::vector<EfficiencyPoint> points;
  bool operator==(const EfficiencyCurve&) const = default;
};

struct PeakRate {
  DType dtype = DType::F32;
  FlopsPerSecond rate;
  bool operator==(const PeakRate&) const = default;
};

struct DeviceSpec {
  std::string name;
  Bytes memory;                     // capacity; 0: unknown, and no limit
  std::vector<PeakRate> peaks;      // dense peak, matrix units included, per compute unit
  BytesPerSecond memory_bandwidth;  // per compute unit
  Seconds launch_overhead;          // fixed cost of one kernel
  /// How many ranks compute at full rate together: compute units, such as the cores of a CPU. More
  /// ranks share the device's throughput fairly.
  int concurrent_ranks = 1;
  std::vector<EfficiencyCurve> efficiency;
  /// Compute and communication that overlap both take this times as long.
  double overlap_slowdown = 1.0;
  BytesPerSecond host_bandwidth;  // of copies between device and host, in each direction
  /// A device's part of its host's memory bandwidth, which limits what the host computes for it.
  /// 0 if the device is the host.
  BytesPerSecond host_memory_bandwidth;
  double dollars_per_hour = 0;  // 0: unknown
  bool operator==(const DeviceSpec&) const = default;
};

/// A link as one rank sees it. A transfer takes the latency plus its bytes over the bandwidth (the
/// alpha-beta model).
struct LinkSpec {
  BytesPerSecond bandwidth;  // one direction
  Seconds latency;
  bool operator==(const LinkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  int nodes = 1;
  int devices_per_node = 1;
  int ranks_per_device = 1;  // above 1, several ranks share a device (threads on one CPU)
  DeviceSpec device;
  LinkSpec intra_node;
  LinkSpec inter_node;
  int ranks_per_node() const { return devices_per_node * ranks_per_device; }
  int capacity() const { return nodes * ranks_per_node(); }  // ranks
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace lockstep
