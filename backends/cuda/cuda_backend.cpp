#include "backends/cuda/cuda_backend.hpp"

#include <cstdlib>
#include <string>
#include <utility>

#include "backends/cuda/cuda_device.hpp"
#include "backends/cuda/local_communicator.hpp"
#include "backends/cuda/nccl_communicator.hpp"
#include "core/data/dataset.hpp"

namespace lockstep {
namespace {

using Gpus = std::vector<std::unique_ptr<cuda::Driver>>;

Error unsupported(const std::string& message) {
  return {ErrorKind::Unsupported, message, std::nullopt};
}

/// The rank of this process among those of its machine, as the launcher tells it.
int local_rank(const Process& process) {
  for (const char* name : {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID"}) {
    if (const char* value = std::getenv(name)) return std::atoi(value);
  }
  return process.index();
}

/// What runs the ranks of this process. Each member needs the earlier ones, so they are freed in
/// the reverse order.
struct Crew {
  Gpus gpus;
  std::unique_ptr<cuda::Nccl> nccl;
  std::vector<std::unique_ptr<cuda::Node>> nodes;
  std::vector<std::unique_ptr<cuda::CudaDevice>> devices;
  std::unique_ptr<cuda::NcclWorld> world;
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<RankPort> ports;
};

class CudaBackend final : public Backend {
 public:
  CudaBackend(CudaPlatform platform, CudaOptions options, const ExecutorOptions& executor)
      : platform_(std::move(platform)), options_(std::move(options)), executor_(executor) {}
  std::string_view name() const override { return "cuda"; }

  Result<RunResult> run(const Program& program, const ClusterSpec&,
                        const RunOptions& options) override {
    BatchSource batches;
    if (reads_host_data(program)) {
      auto opened = open_dataset(program.input.samples, program.training.seed, options.dataset);
      if (!opened) return opened.error();
      batches = std::move(*opened);
    }
    SoleProcess sole;
    Process& process = executor_.process != nullptr ? *executor_.process : sole;
    Crew crew;
    if (auto ready = assemble(program, process, crew); !ready) {
      return ready.error();
    }
    return execute(program, options, "cuda", crew.ports, batches, executor_);
  }

  Result<std::unique_ptr<OwnDevice>> open_device(const Program& program) override {
    struct Own final : OwnDevice {
      Device& device() override { return *crew.devices.front(); }
      SoleProcess process;
      Crew crew;
    };
    auto own = std::make_unique<Own>();
    if (auto ready = assemble(program, own->process, own->crew); !ready) return ready.error();
    return std::unique_ptr<OwnDevice>(std::move(own));
  }

 private:
  Result<void> assemble(const Program& program, Process& process, Crew& crew) const {
    const std::string& communicator = options_.communicator;
    const int world = program.mesh.world_size();
    if (!communicator.empty() && communicator != "nccl" && communicator != "local") {
      return Error{ErrorKind::InvalidSpec,
                   "unknown communicator '" + communicator + "'; known: nccl, local", std::nullopt};
    }
    const bool distributed = process.size() > 1;
    if (distributed && process.size() != world) {
      return Error{ErrorKind::InvalidSpec,
                   "the program has " + std::to_string(world) + " ranks, but " +
                       std::to_string(process.size()) +
                       " processes were started: one of each is needed",
                   std::nullopt};
    }
    const bool local = communicator == "local" || (communicator.empty() && world == 1);
    // This has to be set before the first call of CUDA. Loading a kernel may wait for those that
    // run, and NCCL's kernels run until those of other ranks have come; so all are loaded at the
    // start.
    if (!local && world > 1) setenv("CUDA_MODULE_LOADING", "EAGER", 0);
    auto gpus = platform_.open_gpus();
    if (!gpus) return gpus.error();
    crew.gpus = std::move(*gpus);
    if (local && distributed) {
      return unsupported("the communicator 'local' runs all ranks in one process");
    }
    return local ? all_on_one(program, process, crew) : one_each(program, process, crew);
  }

  Result<std::unique_ptr<cuda::CudaDevice>> device(const Program& program, Rank rank,
                                                   cuda::Driver& gpu, cuda::Node& node) const {
    if (options_.cudnn) {
      if (const auto ready = gpu.use_cudnn(); !ready) return ready.error();
    }
    std::unique_ptr<cuda::HostCompute> host;
    if (platform_.make_host && program.role_of(rank).host_arena.v > 0) {
      host = platform_.make_host(options_.host_threads);
    }
    auto made = cuda::CudaDevice::create(program, rank, gpu, node, std::move(host));
    if (!made || !options_.graphs) return made;
    if (const auto ready = (*made)->use_graphs(); !ready) return ready.error();
    return made;
  }

  Result<void> all_on_one(const Program& program, Process& process, Crew& crew) const {
    if (options_.graphs && program.mesh.world_size() > 1) {
      return unsupported("CUDA graphs: logical ranks on one GPU wait for each other on the host");
    }
    cuda::Driver& gpu = *crew.gpus.front();
    crew.nodes.push_back(std::make_unique<cuda::Node>(gpu, process));
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      auto made = device(program, rank, gpu, *crew.nodes.front());
      if (!made) return made.error();
      crew.devices.push_back(std::move(*made));
      crew.communicators.push_back(
          std::make_unique<cuda::LocalCommunicator>(program, rank, *crew.devices.back()));
      crew.ports.push_back({rank, crew.devices.back().get(), crew.communicators.back().get()});
    }
    return {};
  }

  Result<void> one_each(const Program& program, Process& process, Crew& crew) const {
    const bool distributed = process.size() > 1;
    const int world = program.mesh.world_size(), ranks = distributed ? 1 : world;
    const auto gpus = static_cast<int>(crew.gpus.size());
    const int first = distributed ? local_rank(process) : 0;
    if (first + ranks > gpus) {
      return unsupported(std::to_string(distributed ? first + 1 : ranks) + " ranks and " +
                         std::to_string(gpus) +
                         " GPU(s) on this machine: NCCL needs a GPU for every rank; "
                         "--communicator local runs any number of ranks on one");
    }
    auto nccl = platform_.open_nccl();
    if (!nccl) return nccl.error();
    crew.nccl = std::move(*nccl);
    std::vector<cuda::NcclRank> members;
    auto gpu = crew.gpus.begin() + first;
    for (int i = 0; i < ranks; ++i, ++gpu) {
      members.push_back({distributed ? process.index() : i, gpu->get()});
    }
    for (const cuda::NcclRank& member : members) {
      crew.nodes.push_back(std::make_unique<cuda::Node>(*member.gpu, process));
      auto made = device(program, member.rank, *member.gpu, *crew.nodes.back());
      if (!made) return made.error();
      crew.devices.push_back(std::move(*made));
    }
    auto joined = cuda::NcclWorld::join(program, members, *crew.nccl, process);
    if (!joined) return joined.error();
    crew.world = std::move(*joined);
    for (std::size_t i = 0; i < members.size(); ++i) {
      crew.communicators.push_back(std::make_unique<cuda::NcclCommunicator>(
          program, members[i].rank, *crew.devices[i], *crew.world, executor_.timeout));
      crew.ports.push_back(
          {members[i].rank, crew.devices[i].get(), crew.communicators.back().get()});
    }
    return {};
  }

  CudaPlatform platform_;
  CudaOptions options_;
  ExecutorOptions executor_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(CudaPlatform platform, CudaOptions options,
                                           const ExecutorOptions& executor) {
  return std::make_unique<CudaBackend>(std::move(platform), std::move(options), executor);
}

}  // namespace lockstep
