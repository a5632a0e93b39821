// Calibration: measures a GPU, for the figures that the simulator reads.
#pragma once

#include "backends/cuda/driver.hpp"
#include "core/cluster/cluster.hpp"

namespace lockstep::cuda {

/// Seconds of one launch of `kernel` on random operands: the mean of `times` launches in a row, and
/// the least of `rounds` such means. Requires that the driver supports the kernel. Errors: those of
/// the driver.
Result<Seconds> measure(Driver& gpu, const Kernel& kernel, int rounds, int times);

struct GpuCalibrateOptions {
  bool quick = false;         // fewer sizes and repetitions
  DType dtype = DType::BF16;  // the type in which kernels are measured; may be F32 or F64
  int ranks_per_device = 64;  // how many ranks the profile allows; they share the GPU
};

/// The GPU as a cluster of one node and one device, timed by events on an otherwise idle stream:
/// - peaks: the best rate of a large matrix product in bfloat16, float32 and float64, on random
///   values (equal values take less power, and so less time);
/// - memory_bandwidth: a copy within the GPU, bytes read plus written;
/// - host_bandwidth: a copy from pinned memory;
/// - launch_overhead: the smallest kernel, one after the other;
/// - efficiency: for each kind of kernel, in one type, roofline time over measured time; for GELU
///   and its gradient, what they add to the product that has them in its epilogue, where one does;
/// - intra_node: a copy, which is what ranks on one GPU see; it says nothing of a network.
///
/// Errors: those of the driver.
Result<ClusterSpec> calibrate_gpu(Driver& gpu, const GpuCalibrateOptions& options);

}  // namespace lockstep::cuda
