// Calibration of a GPU into the figures that the simulator reads.
#pragma once

#include "backends/cuda/driver.hpp"
#include "core/cluster/cluster.hpp"

namespace lockstep::cuda {

/// Seconds of one launch of `kernel` on random operands: the least among `rounds` of `times` in a
/// row. Requires that the driver supports it. Errors: those of the driver.
Result<Seconds> measure(Driver& gpu, const Kernel& kernel, int rounds, int times);

struct GpuCalibrateOptions {
  bool quick = false;         // fewer sizes and repetitions
  DType dtype = DType::BF16;  // that kernels are measured in; or F32, F64
  int ranks_per_device = 64;  // logical ranks that the profile allows; they share the GPU
};

/// The GPU as a cluster of one node and device, by events on an otherwise idle stream:
///  - peaks: the best rate of a large matrix product in bfloat16, float32 and float64, on random
///    values (equal ones cost less power, and so less time);
///  - memory_bandwidth: a copy within the GPU, bytes read plus written; host_bandwidth: from pinned
///    memory; launch_overhead: the smallest kernel, one after the other;
///  - efficiency: per kernel kind in one type (tensor cores know only some), roofline time over
///    measured time; of GELU and its gradient what they add to the product that takes them along,
///    where one does;
///  - intra_node: what logical ranks on one GPU see, a copy; no figure of a network.
/// Errors: those of the driver.
Result<ClusterSpec> calibrate_gpu(Driver& gpu, const GpuCalibrateOptions& options);

}  // namespace lockstep::cuda
