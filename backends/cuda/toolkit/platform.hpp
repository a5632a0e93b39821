// Platform: the GPUs of this machine and its NCCL, through the CUDA toolkit. cuBLASLt and NCCL are
// opened when they are needed, so that the binary starts on any machine and says what is missing.
#pragma once

#include "backends/cuda/cuda_backend.hpp"

namespace lockstep::cuda {

/// Whether this binary was built with a CUDA toolkit.
bool has_toolkit();

/// The platform of the CUDA backend. Its functions return error Unsupported if there is no toolkit;
/// open_gpus returns Device if there is no driver or no GPU, and open_nccl returns Unsupported if
/// libnccl.so.2 is not found.
CudaPlatform platform();

}  // namespace lockstep::cuda
