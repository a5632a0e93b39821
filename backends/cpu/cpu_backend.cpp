#include "backends/cpu/cpu_backend.hpp"

#include <string>
#include <utility>
#include <vector>

#include "backends/cpu/cpu_communicator.hpp"
#include "backends/cpu/cpu_device.hpp"
#include "backends/cpu/remote_communicator.hpp"
#include "backends/local/fabric.hpp"
#include "backends/local/own_device.hpp"
#include "core/data/dataset.hpp"

namespace lockstep {
namespace {

class CpuBackend final : public Backend {
 public:
  CpuBackend(const ExecutorOptions& options, int threads_per_rank)
      : options_(options), threads_(threads_per_rank) {}
  std::string_view name() const override { return "cpu"; }

  Result<RunResult> run(const Program& program, const ClusterSpec&,
                        const RunOptions& options) override {
    BatchSource batches;
    if (reads_host_data(program)) {
      auto opened = open_dataset(program.input.samples, program.training.seed, options.dataset);
      if (!opened) return opened.error();
      batches = std::move(*opened);
    }
    return distributed() ? run_own_rank(program, options, batches)
                         : run_all_ranks(program, options, batches);
  }

  Result<std::unique_ptr<OwnDevice>> open_device(const Program& program) override {
    return local::open_on_fabric<cpu::CpuDevice>([&](local::Fabric& fabric) {
      return cpu::CpuDevice::create(program, 0, threads_, fabric);
    });
  }

 private:
  bool distributed() const { return options_.process != nullptr && options_.process->size() > 1; }

  Result<RunResult> run_all_ranks(const Program& program, const RunOptions& options,
                                  const BatchSource& batches) {
    const SoleProcess sole;
    const RunContext* const process = options_.process;
    local::Fabric fabric(process != nullptr ? *process : sole);
    std::vector<std::unique_ptr<cpu::CpuDevice>> devices;
    std::vector<std::unique_ptr<cpu::CpuCommunicator>> communicators;
    std::vector<RankPort> ports;
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      auto device = cpu::CpuDevice::create(program, rank, threads_, fabric);
      if (!device) return device.error();
      devices.push_back(std::move(*device));
      communicators.push_back(
          std::make_unique<cpu::CpuCommunicator>(program, rank, *devices.back(), fabric));
      ports.push_back({rank, devices.back().get(), communicators.back().get()});
    }
    ExecutorOptions executor = options_;
    executor.context = &fabric;
    return execute(program, options, "cpu", ports, batches, executor);
  }

  Result<RunResult> run_own_rank(const Program& program, const RunOptions& options,
                                 const BatchSource& batches) {
    Process& process = *options_.process;
    if (program.mesh.world_size() != process.size()) {
      return Error{ErrorKind::InvalidSpec,
                   "the program has " + std::to_string(program.mesh.world_size()) + " ranks, but " +
                       std::to_string(process.size()) +
                       " processes were started: one of each is needed",
                   std::nullopt};
    }
    const Rank rank = process.index();
    auto device = cpu::CpuDevice::create(program, rank, threads_, process);
    if (!device) return device.error();
    cpu::RemoteCommunicator communicator(program, rank, **device, process);
    const RankPort port{rank, device->get(), &communicator};
    ExecutorOptions executor = options_;
    executor.context = &process;
    return execute(program, options, "cpu", {&port, 1}, batches, executor);
  }

  ExecutorOptions options_;
  int threads_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend(const ExecutorOptions& options, int threads_per_rank) {
  return std::make_unique<CpuBackend>(options, threads_per_rank);
}

}  // namespace lockstep
