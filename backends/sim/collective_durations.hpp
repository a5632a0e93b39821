// CollectiveDurations: a group has few collectives that differ, whose times are computed once.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/sim/plan.hpp"

namespace lockstep::sim {

class CollectiveDurations {
 public:
  CollectiveDurations(const ClusterSpec& cluster, const std::vector<GroupInstance>& instances)
      : cluster_(cluster), instances_(instances), known_(instances.size()) {}

  /// Picoseconds.
  std::int64_t of(std::uint32_t instance, OpKind kind, Bytes full) {
    std::vector<Known>& known = known_[instance];
    for (const Known& k : known) {
      if (k.kind == kind && k.full == full) return k.duration;
    }
    const GroupInstance& group = instances_[instance];
    const Seconds time =
        collective_time(kind, full, group.size, group.links, cluster_).time.total();
    known.push_back({kind, full, to_sim_time(time).count()});
    return known.back().duration;
  }

  /// Picoseconds for transfers that follow each other, and for which the host does something for
  /// each member (FrameworkSpec::parameter_part).
  std::int64_t one_by_one(std::uint32_t instance, OpKind kind,
                          const std::vector<Bytes>& transfers) {
    const auto members = static_cast<double>(instances_[instance].size);
    const std::int64_t host = to_sim_time(members * cluster_.framework.parameter_part).count();
    std::int64_t time = 0;
    for (const Bytes full : transfers) time += of(instance, kind, full) + host;
    return time;
  }

 private:
  struct Known {
    OpKind kind;
    Bytes full;
    std::int64_t duration;
  };

  const ClusterSpec& cluster_;
  const std::vector<GroupInstance>& instances_;
  std::vector<std::vector<Known>> known_;  // by instance
};

}  // namespace lockstep::sim
