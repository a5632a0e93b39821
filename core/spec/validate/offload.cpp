// What lies beyond the device: which of it, where, and through how many buffers.
#include "core/spec/validate/faults.hpp"

namespace lockstep {
namespace {

void validate_drives(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  const auto on_drive = [](OffloadDevice device) { return device == OffloadDevice::Nvme; };
  if (on_drive(p.offload_optimizer_device) && p.offload == Offload::None) {
    faults.add("parallelism.offload_optimizer_device",
               "offload_optimizer_device=nvme says where offloaded states lie, and offload=none "
               "offloads none: offload=optimizer");
  }
  if (on_drive(p.offload_param_device) && p.offload != Offload::Parameters) {
    faults.add("parallelism.offload_param_device",
               "offload_param_device=nvme says where offloaded parameters lie, and only "
               "offload=parameters offloads them");
  }
  if (!p.offloads_to_drive()) return;
  const char* const key = on_drive(p.offload_optimizer_device)
                              ? "parallelism.offload_optimizer_device"
                              : "parallelism.offload_param_device";
  if (s.cluster.drives.count == 0) {
    faults.add(key, "the nodes of cluster '" + s.cluster.name +
                        "' have no drives: say cluster.drives.count, read_gb_s and write_gb_s");
  }
}

}  // namespace

void validate_offload(const Scenario& s, Faults& faults) {
  const StrategySpec& p = s.strategy;
  if (p.offload == Offload::Parameters && (p.zero_stage < 3 || p.state_shards() == 1)) {
    faults.add("parallelism.offload",
               "offload=parameters brings shards to the device before each gather: zero_stage 3 "
               "and a data_parallel_shard_degree above 1; offload=optimizer works for all");
  }
  validate_drives(s, faults);
  const int least = p.least_offload_buffers();
  if (p.offload_buffer_count > 0 && p.offload_buffer_count < least) {
    faults.add(
        "parallelism.offload_buffer_count",
        "offload_buffer_count=" + std::to_string(p.offload_buffer_count) +
            " units have room in host memory, and " + std::to_string(least) +
            " are needed: one that is updated" +
            (p.offload_pipeline_read ? ", one that is read (offload_pipeline_read)" : "") +
            (p.offload_pipeline_write ? ", one that is written (offload_pipeline_write)" : ""));
  }
}

}  // namespace lockstep
