// Calibration: measures this machine's cores and memory, for the figures that the simulator reads.
#pragma once

#include <functional>

#include "core/base/result.hpp"
#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep::cpu {

struct CalibrateOptions {
  bool quick = false;         // fewer sizes and repetitions
  int ranks_per_device = 64;  // how many ranks the profile allows; they share the cores
  /// What is measured: the kernels that its ranks run, in their order and beside each other
  /// (replay.hpp). Null: kernels of transformers and residual networks of several sizes.
  const Program* program = nullptr;
  /// Called on the way with the kernels (of a program: steps) that are measured and with how many
  /// there are to be.
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

}  // namespace lockstep::cpu
