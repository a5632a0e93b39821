#ifndef LOCKSTEP_HAVE_CUDA
#include "backends/cuda/toolkit/platform.hpp"

namespace lockstep::cuda {

bool has_toolkit() { return false; }

CudaPlatform platform() {
  const Error error{ErrorKind::Unsupported,
                    "backend 'cuda' is not built into this binary: there was no CUDA toolkit",
                    std::nullopt};
  return {[=]() -> Result<std::vector<std::unique_ptr<Driver>>> { return error; },
          [=]() -> Result<std::unique_ptr<Nccl>> { return error; },
          {}};
}

}  // namespace lockstep::cuda
#endif
