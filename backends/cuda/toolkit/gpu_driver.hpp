// GpuDriver: a Driver that calls the CUDA runtime.
#pragma once

#include <memory>
#include <vector>

#include "backends/cuda/driver.hpp"

namespace lockstep::cuda {

/// All GPUs of this machine for which this binary has code. Error Device if there is no driver, no
/// GPU, or none that is new enough.
Result<std::vector<std::unique_ptr<Driver>>> open_gpus();

/// Makes the GPU of `gpu`, a Driver from open_gpus(), the current device of this thread.
void make_current(const Driver& gpu);

}  // namespace lockstep::cuda
