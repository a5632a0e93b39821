#include "backends/backends.hpp"

#include "backends/cpu/cpu_backend.hpp"
#include "backends/cpu/kernels/kernels.hpp"
#include "backends/cuda/toolkit/platform.hpp"
#include "backends/reference/reference_backend.hpp"
#include "backends/sim/sim_backend.hpp"
#include "core/base/nearest.hpp"

namespace lockstep {
namespace {

class CpuKernels final : public cuda::HostCompute {
 public:
  explicit CpuKernels(int threads) : team_(threads) {}
  bool supports(const Kernel& kernel) const override { return cpu::supports(kernel); }
  void run(const Kernel& kernel, std::span<std::byte* const> buffers,
           const StepContext& context) override {
    cpu::run_kernel(kernel, buffers, context, team_);
  }

 private:
  ThreadTeam team_;
};

}  // namespace

CudaPlatform cuda_platform() {
  CudaPlatform platform = cuda::platform();
  platform.make_host = [](int threads) { return std::make_unique<CpuKernels>(threads); };
  return platform;
}

std::vector<std::string> backend_names() {
  if (cuda::has_toolkit()) return {"sim", "cpu", "cuda", "reference"};
  return {"sim", "cpu", "reference"};
}

Result<std::unique_ptr<Backend>> make_backend(std::string_view name,
                                              const BackendOptions& options) {
  Process* const process = options.process;
  if ((name == "sim" || name == "reference") && process != nullptr && process->size() > 1) {
    return Error{ErrorKind::InvalidSpec,
                 "backend '" + std::string(name) + "' runs in one process, and " +
                     std::to_string(process->size()) + " were started",
                 std::nullopt};
  }
  if (name == "sim") return make_sim_backend(options.what_if);
  const ExecutorOptions executor{.process = process, .timeout = options.timeout};
  if (name == "cpu") return make_cpu_backend(executor, options.threads_per_rank);
  if (name == "reference") return make_reference_backend(executor);
  if (name == "cuda" && cuda::has_toolkit()) {
    CudaOptions cuda = options.cuda;
    cuda.host_threads = options.threads_per_rank;
    return make_cuda_backend(cuda_platform(), std::move(cuda), executor);
  }
  if (name == "cuda") {
    return Error{ErrorKind::Unsupported,
                 "backend 'cuda' is not built into this binary: there was no CUDA toolkit, or no "
                 "GPU was visible and LOCKSTEP_CUDA was not ON (docs/gpu.md)",
                 std::nullopt};
  }
  std::string message = "unknown backend '" + std::string(name) + "'";
  if (const std::string close = nearest(name, {"sim", "cpu", "cuda", "reference"});
      !close.empty()) {
    message += "; did you mean '" + close + "'?";
  } else {
    message += "; known: sim, cpu, cuda, reference";
  }
  return Error{ErrorKind::InvalidSpec, std::move(message), std::nullopt};
}

}  // namespace lockstep
