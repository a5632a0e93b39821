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
