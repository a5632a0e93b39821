// Calibration: measures this machine's cores and memory, for the figures that the simulator reads.
#pragma once

#include <functional>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"

namespace lockstep::cpu {

struct CalibrateOptions {
  bool quick = false;         // fewer sizes and repetitions
  int ranks_per_device = 64;  // how many ranks the profile allows; they share the cores
  /// false: all but `efficiency` and `hand_over`, for who measures those of one program (Replay).
  bool kernels = true;
  /// Called on the way with the kernels that are measured and with how many there are to be.
  std::function<void(int done, int all)> on_progress = {};
};

/// This machine as a cluster of one node, measured in processor time of a thread:
///  - peaks: a loop of independent fused multiply-adds, float32 and float64; of bfloat16, the
///    fastest product;
///  - memory_bandwidth: a copy of a block larger than common caches, bytes read plus written;
///  - efficiency: per kernel kind, roofline time over measured time (the median of several runs,
///    less the launch overhead), of kernels in bfloat16 apart, whose products may run on tiles, at
///    several sizes from one tile to the size of a real layer, on operands that have left the
///    nearest caches and beside as many threads as there are cores;
///  - launch_overhead: the smallest kernel; host_bandwidth and intra_node: copies within memory;
///  - hand_over: from notifying a waiting thread until it runs.
/// Other work on the machine still takes cache and memory bandwidth away. Error if less than 1 GiB
/// of memory is free.
Result<ClusterSpec> calibrate_cpu(const CalibrateOptions& options);

/// From the notification of a waiting thread until it runs, the median of many turns of two threads
/// that each work for so long before they notify the other. The longer a core has waited, the
/// deeper it sleeps: on a virtual machine 7 us after 0.1 ms, 50 us after 6 ms. In turns without
/// work, both stay on one core or poll, and take a tenth of it.
Seconds hand_over_time(Seconds work, int turns);

}  // namespace lockstep::cpu
