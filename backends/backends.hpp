// Backends: the list of those that this binary has, and how to make one by its name.
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

/// The GPUs and the NCCL of this machine, and the CPU's kernels for what is offloaded to the host.
CudaPlatform cuda_platform();

/// What a backend takes beside RunOptions. Each backend reads only what it needs.
struct BackendOptions {
  /// This process among several, which must outlive the backend; null if there is only one process.
  Process* process = nullptr;
  /// Host threads that compute for a rank: all its work for "cpu", what is offloaded for "cuda".
  int threads_per_rank = 1;
  double timeout = 0;       // ExecutorOptions::timeout
  WhatIfSpec what_if = {};  // for "sim"
  CudaOptions cuda = {};    // for "cuda"; host_threads is overwritten by threads_per_rank
};

/// Makes the backend "sim", "cpu", "cuda" or "reference". The error for another name says the
/// nearest one; for a backend that is not available here, or not in several processes, it says why.
Result<std::unique_ptr<Backend>> make_backend(std::string_view name,
                                              const BackendOptions& options = {});
std::vector<std::string> backend_names();

}  // namespace lockstep
