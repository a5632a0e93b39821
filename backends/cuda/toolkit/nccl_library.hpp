// NcclLibrary: Nccl by libnccl.so.2, which is opened at run time.
#pragma once

#include <memory>

#include "backends/cuda/nccl.hpp"

namespace lockstep::cuda {

/// Error Unsupported if the library is not found or lacks a function, or if this binary was built
/// without its header.
Result<std::unique_ptr<Nccl>> open_nccl();

}  // namespace lockstep::cuda
