// The CUDA backend: ranks on GPUs. With the communicator "nccl" every rank has a GPU of its own,
// all in this process or one rank per process; with "local" all ranks are logical ranks of one GPU.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "backends/cuda/driver.hpp"
#include "backends/cuda/nccl.hpp"
#include "core/run/backend.hpp"
#include "core/run/executor.hpp"

namespace lockstep {

/// How the backend reaches the hardware; asked when a run begins.
struct CudaPlatform {
  std::function<Result<std::vector<std::unique_ptr<cuda::Driver>>>()> open_gpus;
  std::function<Result<std::unique_ptr<cuda::Nccl>>()> open_nccl;
  /// Of one rank, with so many threads. None: what is offloaded to the host is refused.
  std::function<std::unique_ptr<cuda::HostCompute>(int threads)> make_host;
};

struct CudaOptions {
  std::string communicator;  // "nccl" or "local"; empty: "nccl" for several ranks, of which one
                             // needs none
  bool graphs = false;       // untraced steps as one graph, recorded once
  bool cudnn = false;        // attention and convolutions by cuDNN
  int host_threads = 1;      // of each rank, for what is offloaded
};

/// With a `process` among several, its index is the rank that it runs, on the GPU of its local rank
/// (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID; otherwise its index). run() returns
/// Unsupported if there are fewer GPUs than NCCL needs, naming "local"; InvalidSpec for an unknown
/// communicator; Device if there is no GPU or driver.
std::unique_ptr<Backend> make_cuda_backend(CudaPlatform platform, CudaOptions options = {},
                                           const ExecutorOptions& executor = {});

}  // namespace lockstep
