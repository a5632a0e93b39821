// backends: the list of what is built.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "core/base/result.hpp"
#include "core/run/backend.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// GPUs and NCCL of this machine, and the CPU's kernels for what is offloaded.
CudaPlatform cuda_platform();

/// "sim", "cpu", "cuda", "reference": error with the nearest name, or with why it is not available
/// here, or not to a `process` that is one of several. `process` outlives the backend; null: it is
/// on its own.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name, Process* process = nullptr);
std::vector<std::string> backend_names();

}  // namespace lockstep
