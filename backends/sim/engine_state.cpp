#include "backends/sim/engine_state.hpp"

#include <algorithm>

namespace lockstep::sim {

EngineState::EngineState(const Program& program, const ClusterSpec& cluster, const Plan& plan,
                         Timeline& timeline)
    : overlap(std::max(1.0, cluster.device.overlap_slowdown)),
      fluid(plan.crowded_devices || plan.shared_ports || plan.shared_drives || overlap > 1),
      ranks(plan.folding.representatives.size()),
      cells(ranks.size() * kNumStreams),
      meetings(plan.instances.size()),
      device_of(ranks.size()),
      at_drives(plan.drives.ranks.size(), 0),
      shares(plan.shared_ports ? ranks.size() * kPortsOfRank : 0,
             plan.shared_ports ? cells.size() : 0) {
  for (const Rank rank : plan.folding.representatives) {
    timeline.first.push_back(to_size(num_ops));
    num_ops += static_cast<std::int64_t>(program.role_of(rank).ops.size());
  }
  timeline.first.push_back(to_size(num_ops));
  timeline.times.resize(to_size(num_ops));
  for (std::uint32_t i = 0; i < ranks.size(); ++i) {
    SimRank& r = ranks[i];
    r.rank = plan.folding.representatives[i];
    const RoleId role = program.role_of_rank[r.rank];
    r.role = &program.roles[role];
    r.plan = &plan.roles[role];
    r.duration = (r.rank == plan.straggler ? plan.slow_duration : plan.duration).data();
    const std::uint32_t device = device_of[i] =
        static_cast<std::uint32_t>(r.rank / std::max(1, cluster.ranks_per_device));
    std::fill(std::begin(r.waits_for), std::end(r.waits_for), -1);
    r.times = timeline.times.data() + timeline.first[i];
    for (std::uint32_t s = 0; s < kNumStreams; ++s) {
      Cell& cell = cells[i * kNumStreams + s];
      const StreamOrder& order = r.plan->order;
      cell.order = order.ops.data() + order.begin[s];
      cell.count = order.begin[s + 1] - order.begin[s];
      cell.rank = i;
      cell.reached = cell.count > 0 ? *cell.order : kNone;
    }
    if (device >= running_on.size()) {
      running_on.resize(device + 1, 0);
      ranks_on.resize(device + 1);
    }
    ranks_on[device].push_back(i);
  }
}

}  // namespace lockstep::sim
