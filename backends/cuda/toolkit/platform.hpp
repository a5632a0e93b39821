// The GPUs of this machine and its NCCL, through the CUDA toolkit. cuBLASLt and NCCL are opened
// when they are needed, so the binary starts anywhere and says what is missing.
#pragma once

#include "backends/cuda/cuda_backend.hpp"

namespace lockstep::cuda {

/// Whether this binary was built with a CUDA toolkit.
bool has_toolkit();

/// Error Unsupported without a toolkit; of open_gpus Device if there is no driver or no GPU; of
/// open_nccl Unsupported if libnccl.so.2 is not found.
CudaPlatform platform();

}  // namespace lockstep::cuda
