// backends: the list of what is built.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "backends/cuda/cuda_backend.hpp"
#include "core/base/result.hpp"
#include "core/cluster/what_if.hpp"
#include "core/run/backend.hpp"
#include "core/run/process.hpp"

namespace lockstep {

/// GPUs and NCCL of this machine, and the CPU's kernels for what is offloaded.
CudaPlatform cuda_platform();

/// What one backend or another takes beside RunOptions.
struct BackendOptions {
  Process* process = nullptr;  // one of several; outlives the backend. Null: it is on its own
  int threads_per_rank = 1;    // of the host that compute: "cpu", and of "cuda" what is offloaded
  WhatIfSpec what_if = {};     // "sim"
  CudaOptions cuda = {};       // "cuda"; its host_threads are threads_per_rank
};

/// "sim", "cpu", "cuda", "reference": error with the nearest name, or with why it is not available
/// here, or not to a process that is one of several.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name,
                                              const BackendOptions& options = {});
std::vector<std::string> backend_names();

}  // namespace lockstep
