// CollectiveDurations: groups have few collectives that differ, whose times are computed once.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "backends/sim/plan.hpp"

namespace lockstep::sim {

class CollectiveDurations {
 public:
  CollectiveDurations(const ClusterSpec& cluster, const std::vector<GroupInstance>& instances)
      : cluster_(cluster), instances_(instances), kind_(instances.size()) {
    for (std::size_t i = 0; i < instances.size(); ++i) {
      const auto alike = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) {
        return kind.size == instances[i].size && kind.links == instances[i].links;
      });
      kind_[i] = static_cast<std::uint32_t>(alike - kinds_.begin());
      if (alike == kinds_.end()) kinds_.push_back({instances[i].size, instances[i].links, {}});
    }
  }

  /// Picoseconds.
  std::int64_t of(std::uint32_t instance, OpKind kind, Bytes full) {
    Kind& group = kinds_[kind_[instance]];
    for (const Known& k : group.known) {
      if (k.kind == kind && k.full == full) return k.duration;
    }
    const Seconds time =
        collective_time(kind, full, group.size, group.links, cluster_).time.total();
    group.known.push_back({kind, full, to_sim_time(time).count()});
    return group.known.back().duration;
  }

  /// Picoseconds for transfers that follow each other, and for which the host does something for
  /// each member (FrameworkSpec::parameter_part).
  std::int64_t one_by_one(std::uint32_t instance, OpKind kind,
                          const std::vector<Bytes>& transfers) {
    const auto members = static_cast<double>(instances_[instance].size);
    const std::int64_t host = to_sim_time(members * cluster_.framework.parameter_part).count();
    std::int64_t time = 0;
    for (const Bytes full : transfers) {
      time = std::min(time + of(instance, kind, full) + host, kLongestTime.count());
    }
    return time;
  }

 private:
  struct Known {
    OpKind kind;
    Bytes full;
    std::int64_t duration;
  };
  /// Groups of as many members over links like these.
  struct Kind {
    int size = 0;
    GroupLinks links;
    std::vector<Known> known;
  };

  const ClusterSpec& cluster_;
  const std::vector<GroupInstance>& instances_;
  std::vector<Kind> kinds_;
  std::vector<std::uint32_t> kind_;  // by instance
};

}  // namespace lockstep::sim
