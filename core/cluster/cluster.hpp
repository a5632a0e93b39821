// ClusterSpec: where to train. Devices, nodes and links, with the figures a cost model needs.
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
  Seconds launch_overhead;          // fixed cost of one kernel
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

/// A link as one rank sees it.
struct LinkSpec {
  BytesPerSecond bandwidth;  // one direction, as rings reach it
  Seconds latency;           // of a step; with NCCL what the link adds to NCCL's own latencies
  bool operator==(const LinkSpec&) const = default;
};

/// What carries out collectives. Ring: rings of steps that take latency + bytes / bandwidth, and
/// transfers that do not disturb each other. Nccl: the algorithm and protocol that NCCL chooses,
/// and transfers that share ports.
enum class CollectiveLibrary { Ring, Nccl };
enum class NodeLink { Nvlink, Pcie };

/// How devices and nodes are connected, beside the two links' own figures.
struct NetworkSpec {
  CollectiveLibrary library = CollectiveLibrary::Ring;
  NodeLink node_link = NodeLink::Nvlink;
  bool switched = true;  // a device has all of its bandwidth to any other of the node; false: links
                         // to each of the others
  BytesPerSecond in_switch_reduction;  // all-reduce by the node's switch (NVLS): bytes of the
                                       // buffer per second; 0: the switch cannot
  BytesPerSecond low_latency{87.7e9};  // most that rings reach inside a node with protocol LL
  int channels = 16;                   // rings or trees that run side by side, each on one SM
  int ports_per_node = 0;       // ports to the network, of inter_node's rate; 0: one a device
  int leaf_ports = 0;           // a leaf switch's ports to nodes; 0: one leaf has all nodes
  bool rails = true;            // a leaf has one port of each of its nodes, not all of them
  double oversubscription = 1;  // a leaf's ports to nodes over those to spines
  Seconds spine_latency;        // of a message that passes a spine, in addition
  bool operator==(const NetworkSpec&) const = default;
};

struct ClusterSpec {
  std::string name;
  int nodes = 1;
  int devices_per_node = 1;
  int ranks_per_device = 1;  // above 1: logical ranks share a device (threads on one CPU)
  DeviceSpec device;
  LinkSpec intra_node;
  LinkSpec inter_node;  // one port
  NetworkSpec network;
  int ranks_per_node() const { return devices_per_node * ranks_per_device; }
  int capacity() const { return nodes * ranks_per_node(); }  // ranks
  bool operator==(const ClusterSpec&) const = default;
};

}  // namespace lockstep
