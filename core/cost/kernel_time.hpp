// Kernel time: what kernels take, by pure functions of a device and of how the software that runs
// on it is written. docs/cost-model.md has the formulas, their sources and their ranges.
#pragma once

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// The time of one kernel on an otherwise idle device: its launch, its roofline time over the
/// efficiency of its kind, and what the framework moves or waits for besides. Products and
/// attention go by their shape instead of the roofline, where device and framework say how. A Delay
/// kernel takes its seconds exactly.
Seconds kernel_time(const Kernel& kernel, const DeviceSpec& device,
                    const FrameworkSpec& framework = {});
/// The time of a function's kernels one after the other. With launch_blocking the host's time
/// before each of them is added.
Seconds function_time(const Function& function, const DeviceSpec& device,
                      const FrameworkSpec& framework = {});

/// The host of a device, as a device. Its arithmetic goes at the speed of its memory, because that
/// is what limits an optimizer (Ren et al. 2021: 28 bytes and 16 operations per parameter). A
/// device without figures of a host is its own host.
DeviceSpec host_of(const DeviceSpec& device);

/// The dense peak for a type. A type that the device does not list has the peak of the next wider
/// one that it lists. A type wider than all of them has the peak of the widest, slowed by the ratio
/// of sizes. 0 if no peak is listed.
FlopsPerSecond peak_rate(const DeviceSpec& device, DType dtype);

/// The dense peak at which a kernel computes: that of TF32 where it may use it and the device has
/// it, else that of its type.
FlopsPerSecond product_rate(const DeviceSpec& device, const Kernel& kernel);

/// The bandwidth that elementwise kernels reach: the part of the datasheet's that the profile's
/// curve "*" says.
BytesPerSecond copy_rate(const DeviceSpec& device);

}  // namespace lockstep
