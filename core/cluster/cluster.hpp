// ClusterSpec: where to train, that is, devices, nodes and links with the figures that the cost
// model needs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/dtype.hpp"
#include "core/base/units.hpp"
#include "core/cluster/data_loader.hpp"
#include "core/cluster/drives.hpp"
#include "core/cluster/framework.hpp"

namespace lockstep {

/// One measured point of an efficiency curve: a kernel whose roofline time is `ideal` takes
/// ideal / efficiency.
struct EfficiencyPoint {
  Seconds ideal;
  double efficiency = 1;  // in (0, 1] for honest peaks; above 1 where caches beat the memory figure
  bool operator==(const EfficiencyPoint&) const = default;
};

/// The types of kernels whose efficiency a curve is of.
enum class CurveType { All, F32, F64, BF16, F16 };
constexpr CurveType curve_type(DType dtype) {
  switch (dtype) {
    case DType::F32:
      return CurveType::F32;
    case DType::F64:
      return CurveType::F64;
    case DType::BF16:
      return CurveType::BF16;
    case DType::F16:
      return CurveType::F16;
    default:
      return CurveType::All;
  }
}

/// Measured efficiency of one kind of kernel, named as in the program text ("gemm"), by ascending
/// roofline time. Between two points the efficiency is linear in log(ideal); outside them it is
/// that of the nearest point. A kind may have several curves of different widths
/// (KernelRow::width): between two of them the efficiency is linear in log(width), outside them
/// that of the nearest. Kernels of a type that has curves of its own go by these alone, all others
/// by those of all types.
struct EfficiencyCurve {
  std::string kernel;
  std::vector<EfficiencyPoint> points;
  std::int64_t width = 0;  // 0: of any width, and then the kind's only curve of its type
  CurveType dtype = CurveType::All;
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
  FlopsPerSecond tf32_rate;  // dense peak of float32 products on matrix units; 0: there are none
  FlopsPerSecond fp8_rate;   // likewise of 8-bit products
  FlopsPerSecond fp4_rate;   // likewise of 4-bit products, whose blocks have scales of their own
  Seconds launch_overhead;   // fixed cost of one kernel
  /// Waking a stream that waited for another, where streams are threads of the host. 0: they wait
  /// on the device.
  Seconds hand_over;
  double compute_capability = 0;  // NVIDIA's number of the generation; 0: another maker's
  int compute_units = 0;          // streaming multiprocessors; 0: products go by their curve
  double matmul_efficiency = 1;   // part of the peak that large products reach in a run
  /// How many ranks compute at full rate together: compute units, such as the cores of a CPU. More
  /// ranks share the device's throughput fairly.
  int concurrent_ranks = 1;
  std::vector<EfficiencyCurve> efficiency;
  /// Compute and communication that overlap both take this many times as long.
  double overlap_slowdown = 1.0;
  BytesPerSecond host_bandwidth;  // of copies between device and host, in each direction
  /// A device's part of its host's memory bandwidth, which limits what the host computes for it.
  /// 0 if the device is the host.
  BytesPerSecond host_memory_bandwidth;
  /// A device's part of its host's memory. What the devices of a node keep there shares the whole.
  /// 0: unknown, and no limit.
  Bytes host_memory;
  double dollars_per_hour = 0;  // 0: unknown
  double watts = 0;             // the most that it takes, its memory included; 0: unknown
  /// Whether the device computes in the memory of its host, as a CPU does.
  bool is_host() const { return host_memory_bandwidth.v <= 0; }
  bool operator==(const DeviceSpec&) const = default;
};

/// A link as one rank sees it.
struct LinkSpec {
  BytesPerSecond bandwidth;  // one direction, as rings reach it
  Seconds latency;           // of a step; with NCCL, what the link adds to NCCL's own latencies
  bool operator==(const LinkSpec&) const = default;
};

/// The library that carries out collectives. Ring: they are rings of steps that take latency +
/// bytes / bandwidth, and transfers do not disturb each other. Nccl: they go by the algorithm and
/// protocol that NCCL chooses, and transfers share ports.
enum class CollectiveLibrary { Ring, Nccl };
enum class NodeLink { Nvlink, Pcie };

/// How devices and nodes are connected, beside the two links' own figures.
struct NetworkSpec {
  CollectiveLibrary library = CollectiveLibrary::Ring;
  NodeLink node_link = NodeLink::Nvlink;
  bool switched = true;  // a device has all of its bandwidth to any other of the node; false: it
                         // has a separate link to each of the others
  BytesPerSecond in_switch_reduction;  // all-reduce by the node's switch (NVLS): bytes of the
                                       // buffer per second; 0: the switch cannot
  BytesPerSecond low_latency{87.7e9};  // the most that rings reach inside a node with LL
  int channels = 16;                   // rings or trees that run side by side, each on one SM
  int ports_per_node = 0;  // ports to the network, of inter_node's rate; 0: one per device
  /// The bandwidth between a node's two processors, each way. Rings through some of a node's
  /// devices cross it where they leave the node by the port that they came in by. 0: they never do.
  BytesPerSecond sockets;
  int leaf_ports = 0;  // a leaf switch's ports to nodes; 0: one leaf has all nodes
  bool rails = true;   // a leaf has one port of each of its nodes; false: it has all of them
  double oversubscription = 1;  // a leaf's ports to nodes over those to spines
  Seconds spine_latency;        // what a message that passes a spine takes in addition
  bool operator==(const NetworkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  int nodes = 1;
  int devices_per_node = 1;
  int ranks_per_device = 1;  // above 1, several ranks share a device (threads on one CPU)
  DeviceSpec device;
  LinkSpec intra_node;
  LinkSpec inter_node;  // one port of a node
  NetworkSpec network;
  DriveSpec drives;         // of every node
  FrameworkSpec framework;  // the software that runs on it
  DataLoaderSpec loader;    // of every rank
  int ranks_per_node() const { return devices_per_node * ranks_per_device; }
  int capacity() const { return nodes * ranks_per_node(); }  // ranks
  bool operator==(const ClusterSpec&) const = default;
};

/// The software as which a cluster is simulated: framework.preset, or "profile" if other figures
/// replace those of Lockstep's own kernels. Empty for CPUs, which have Lockstep's alone.
inline std::string software_of(const ClusterSpec& cluster) {
  const FrameworkSpec& framework = cluster.framework;
  if (cluster.device.is_host()) return "";
  const FrameworkSpec own;
  return framework.preset != own.preset || framework == own ? framework.preset : "profile";
}

/// In words: "as torchtitan runs it".
inline std::string as_run_by(const std::string& software) {
  if (software == FrameworkSpec{}.preset) return "with Lockstep's own kernels";
  return software == "profile" ? "as its [framework] says" : "as " + software + " runs it";
}

}  // namespace lockstep
