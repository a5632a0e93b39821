// Plan: what the engine looks up while it runs, resolved once per program and cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/cluster/what_if.hpp"
#include "core/cost/cost.hpp"
#include "core/ir/program.hpp"

namespace lockstep::sim {

/// One role's ops by stream.
struct RolePlan {
  std::vector<std::uint32_t> order;           // op ids, grouped by stream
  std::uint32_t begin[kNumStreams + 1] = {};  // of each stream in `order`
  std::vector<std::int32_t> seq;  // by op: n-th collective of its group; empty: no collectives
  std::vector<GroupId> groups;    // used by collectives, ascending
  std::vector<int> peers;         // pipeline coordinates of messages, ascending
};

/// One set of ranks that meet in a group's collectives.
struct GroupInstance {
  std::uint32_t arrivals = 0;  // simulated members: so many must arrive
  int size = 0;                // all members
  GroupLinks links;
};

struct Plan {
  Folding folding;                      // of ranks that do the same at the same time
  IndexVector<RoleId, RolePlan> roles;  // by role
  std::vector<GroupInstance> instances;
  std::vector<std::uint32_t> instance_of;   // [simulated rank][group]
  std::vector<std::uint32_t> peer_of;       // [simulated rank][pp coordinate]: simulated rank
  std::vector<std::int64_t> duration;       // by function, in ps
  Rank straggler = -1;                      // -1: none
  std::vector<std::int64_t> slow_duration;  // the straggler's
  IndexVector<FunctionId, std::int64_t> host_duration;  // by function, computed by the host
  bool crowded_devices = false;  // one may run more calls than it does at full rate
  bool shared_devices = false;   // and they are of several ranks
};

/// The cluster as `what_if` changes it: links with scaled bandwidth.
ClusterSpec apply(const WhatIfSpec& what_if, ClusterSpec cluster);

Result<Plan> make_plan(const Program& program, const ClusterSpec& cluster,
                       const WhatIfSpec& what_if, bool fold_ranks);

}  // namespace lockstep::sim
