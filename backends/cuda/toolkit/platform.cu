#include "backends/cuda/toolkit/gpu_driver.hpp"
#include "backends/cuda/toolkit/nccl_library.hpp"
#include "backends/cuda/toolkit/platform.hpp"

namespace lockstep::cuda {

bool has_toolkit() { return true; }

CudaPlatform platform() { return {open_gpus, open_nccl}; }

}  // namespace lockstep::cuda
