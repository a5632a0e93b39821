// GpuDriver: a Driver over the CUDA runtime.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

/// All GPUs of this machine that this binary has code for. Error Device: no driver, no GPU, or none
/// new enough.
Result<std::vector<std::unique_ptr<Driver>>> open_gpus();

/// Makes the GPU of a Driver that open_gpus() has made this thread's current device.
void make_current(const Driver& gpu);

}  // namespace lockstep::cuda
