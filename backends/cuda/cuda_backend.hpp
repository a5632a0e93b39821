// The CUDA backend: ranks on GPUs. With the communicator "nccl" every rank has a GPU of its own,
// all in this process or one rank per process; with "local" all ranks share one GPU.
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

/// How the backend reaches the hardware. The functions are called when a run begins.
struct CudaPlatform {
  std::function<Result<std::vector<std::unique_ptr<cuda::Driver>>>()> open_gpus;
  std::function<Result<std::unique_ptr<cuda::Nccl>>()> open_nccl;
  /// Makes the host's part of one rank, with so many threads. If it is empty, programs that offload
  /// to the host are refused.
  std::function<std::unique_ptr<cuda::HostCompute>(int threads)> make_host;
};

struct CudaOptions {
  /// "nccl" or "local". Empty means "nccl" if there are several ranks; a single rank needs none.
  std::string communicator;
  bool graphs = false;   // run steps that are not traced as one graph, which is recorded once
  bool cudnn = false;    // compute attention and convolutions by cuDNN
  int host_threads = 1;  // threads of each rank for what is offloaded
};

/// If executor.process is one of several, each process runs the rank of its index, on the GPU of
/// its local rank (LOCAL_RANK, OMPI_COMM_WORLD_LOCAL_RANK or SLURM_LOCALID, else its index). Errors
/// of run(): Unsupported if there are fewer GPUs than NCCL needs, naming "local"; InvalidSpec for
/// an unknown communicator; Device if there is no GPU or driver.
std::unique_ptr<Backend> make_cuda_backend(CudaPlatform platform, CudaOptions options = {},
                                           const ExecutorOptions& executor = {});

}  // namespace lockstep
