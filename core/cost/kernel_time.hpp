// Time of kernels: docs/cost-model.md has the formulas, their sources and their ranges. Pure
// functions of a device and of how the software that runs on it is written.
#pragma once

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// One kernel on an otherwise idle device: launch + its roofline time over the efficiency of its
/// kind, of products and attention by their shape where device and framework say how, + what the
/// framework moves or waits for besides. A Delay kernel takes its seconds exactly.
Seconds kernel_time(const Kernel& kernel, const DeviceSpec& device,
                    const FrameworkSpec& framework = {});
/// Kernels one after the other; with launch_blocking the host's time before each of them, too.
Seconds function_time(const Function& function, const DeviceSpec& device,
                      const FrameworkSpec& framework = {});

/// The host of a device, as a device: arithmetic at the speed of its memory, which is what an
/// optimizer's takes (Ren et al. 2021: 28 bytes and 16 operations per parameter). Without figures
/// of its own the host is the device itself.
DeviceSpec host_of(const DeviceSpec& device);

/// Dense peak for a dtype; a type the device does not list falls to the next wider one it lists,
/// and a type wider than all of them to the widest, slowed by the ratio of sizes. 0: no peak
/// listed.
FlopsPerSecond peak_rate(const DeviceSpec& device, DType dtype);

/// Part of the bandwidth in the datasheet that elementwise kernels reach: the profile's curve "*".
BytesPerSecond copy_rate(const DeviceSpec& device);

}  // namespace lockstep
