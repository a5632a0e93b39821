#include "backends/reference/reference_backend.hpp"

#include <utility>
#include <vector>

#include "backends/local/fabric.hpp"
#include "backends/local/own_device.hpp"
#include "backends/reference/reference_communicator.hpp"
#include "backends/reference/reference_device.hpp"
#include "core/data/dataset.hpp"

namespace lockstep {
namespace {

class ReferenceBackend final : public Backend {
 public:
  explicit ReferenceBackend(const ExecutorOptions& options) : options_(options) {}
  std::string_view name() const override { return "reference"; }

  Result<RunResult> run(const Program& program, const ClusterSpec&,
                        const RunOptions& options) override {
    BatchSource batches;
    if (reads_host_data(program)) {
      auto opened = open_dataset(program.input.samples, program.training.seed, options.dataset);
      if (!opened) return opened.error();
      batches = std::move(*opened);
    }
    local::Fabric fabric;
    std::vector<std::unique_ptr<reference::ReferenceDevice>> devices;
    std::vector<std::unique_ptr<reference::ReferenceCommunicator>> communicators;
    std::vector<RankPort> ports;
    for (Rank rank = 0; rank < program.mesh.world_size(); ++rank) {
      auto device = reference::ReferenceDevice::create(program, rank, fabric);
      if (!device) return device.error();
      devices.push_back(std::move(*device));
      communicators.push_back(std::make_unique<reference::ReferenceCommunicator>(
          program, rank, *devices.back(), fabric));
      ports.push_back({rank, devices.back().get(), communicators.back().get()});
    }
    return execute(program, options, "reference", ports, batches, options_);
  }

  Result<std::unique_ptr<OwnDevice>> open_device(const Program& program) override {
    return local::open_on_fabric<reference::ReferenceDevice>([&](local::Fabric& fabric) {
      return reference::ReferenceDevice::create(program, 0, fabric);
    });
  }

 private:
  ExecutorOptions options_;
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend(const ExecutorOptions& options) {
  return std::make_unique<ReferenceBackend>(options);
}

}  // namespace lockstep
