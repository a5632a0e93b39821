// Cost: kernels and functions -> Seconds. Pure functions of the cluster; no state.
#pragma once

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Roofline of one kernel on an otherwise idle device: launch + max(flops / peak, bytes /
/// bandwidth) / efficiency(kind). A Delay kernel takes its seconds exactly.
Seconds kernel_time(const Kernel& kernel, const DeviceSpec& device);
Seconds function_time(const Function& function, const DeviceSpec& device);

/// The host of a device, as a device: arithmetic at the speed of its memory, which is what an
/// optimizer's takes (Ren et al. 2021: 28 bytes and 16 operations per parameter). Without figures
/// of its own the host is the device itself.
DeviceSpec host_of(const DeviceSpec& device);

/// Dense peak for a dtype; a type the device does not list falls to the next wider one it lists,
/// and a type wider than all of them to the widest, slowed by the ratio of sizes. 0: no peak
/// listed.
FlopsPerSecond peak_rate(const DeviceSpec& device, DType dtype);

}  // namespace lockstep
