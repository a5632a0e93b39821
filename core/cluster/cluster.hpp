// ClusterSpec: where to train. Devices, nodes and links, with the figures a cost model needs.
#pragma once

#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/cluster/framework.hpp"

namespace lockstep {

/// One measured point of an efficiency curve: a kernel whose roofline time is `ideal` takes
/// ideal / efficiency.
struct EfficiencyPoint {
  Seconds ideal;
  double efficiency = 1;  // in (0, 1] for honest peaks; above 1 where caches beat the memory figure
  bool operator==(const EfficiencyPoint&) const = default;
};

/// Measured efficiency of one kernel kind (its name in the program text, "gemm"), by roofline
/// time, ascending. Between points: linear in log(ideal); outside: the nearest point.
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
  Bytes memory;                     // capacity
  std::vector<PeakRate> peaks;      // dense peak, matrix units included, per compute unit
  BytesPerSecond memory_bandwidth;  // per compute unit
  FlopsPerSecond fp8_rate;          // dense peak of 8-bit products; 0: there are none
  Seconds launch_overhead;          // fixed cost of one kernel
  double compute_capability = 0;    // NVIDIA's number of the generation; 0: another maker's
  int compute_units = 0;            // streaming multiprocessors; 0: products by their curve
  double matmul_efficiency = 1;     // part of the peak that large products reach in a run
  int concurrent_ranks = 1;         // ranks that compute at full rate together (cores of a CPU);
                                    // above that they share the device's throughput fairly
  std::vector<EfficiencyCurve> efficiency;
  double overlap_slowdown = 1.0;  // compute and communication that overlap both take this factor
  BytesPerSecond host_bandwidth;  // device <-> host copies, in each direction
  BytesPerSecond host_memory_bandwidth;  // a device's part of its host's memory bandwidth, for what
                                         // the host computes; 0: the device is the host
  double dollars_per_hour = 0;           // 0: unknown
  bool operator==(const DeviceSpec&) const = default;
};

/// A link as one rank sees it: alpha-beta.
struct LinkSpec {
  BytesPerSecond bandwidth;  // one direction
  Seconds latency;
  bool operator==(const LinkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  int nodes = 1;
  int devices_per_node = 1;
  int ranks_per_device = 1;  // above 1: logical ranks share a device (threads on one CPU)
  DeviceSpec device;
  LinkSpec intra_node;
  LinkSpec inter_node;
  FrameworkSpec framework;  // what runs on it
  int ranks_per_node() const { return devices_per_node * ranks_per_device; }
  int capacity() const { return nodes * ranks_per_node(); }  // ranks
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace lockstep
