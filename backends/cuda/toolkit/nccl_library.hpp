// NcclLibrary: Nccl over libnccl.so.2, opened at run time.
#pragma once

#include <memory>

#include "backends/cuda/nccl.hpp"

namespace lockstep::cuda {

/// Error Unsupported: the library is not found, lacks a function, or this binary was built without
/// its header.
Result<std::unique_ptr<Nccl>> open_nccl();

}  // namespace lockstep::cuda
