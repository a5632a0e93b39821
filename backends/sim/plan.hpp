// Plan: what the engine looks up while it runs, computed once per program and cluster.
#pragma once

#include <cstdint>
#include <vector>

#include "backends/sim/drive_groups.hpp"
#include "backends/sim/engine.hpp"
#include "backends/sim/port_shares.hpp"
#include "backends/sim/stream_order.hpp"
#include "backends/sim/ways_of_framework.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/result.hpp"
#include "core/cluster/what_if.hpp"
#include "core/cost/collective.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/ir/program.hpp"

namespace lockstep::sim {

struct RolePlan {
  StreamOrder order;
  std::vector<std::int32_t> seq;  // by op: its number among its group's collectives; may be empty
  std::vector<Bytes> payload;     // by op: payload_bytes(); may be empty as `seq` may
  std::vector<GroupId> groups;    // those that collectives use, ascending
  std::vector<int> peers;         // pipeline coordinates of the other ends of messages, ascending
  std::vector<BesideProduct> beside;           // by op, or empty
  std::vector<std::vector<Bytes>> parameters;  // by op, or empty: moved_parameters()
  std::vector<std::int64_t> launched;          // by op, or empty: launch_times()
};

/// One set of ranks that meet in a group's collectives.
struct GroupInstance {
  std::uint32_t arrivals = 0;  // how many members are simulated, and must arrive
  int size = 0;                // how many members there are
  GroupLinks links;
  std::vector<Port> ports;           // of the simulated members, that its transfers use
  std::vector<std::uint32_t> ranks;  // the simulated members, ascending
};

struct Plan {
  Folding folding;                      // says which rank stands for which
  IndexVector<RoleId, RolePlan> roles;  // by role
  std::vector<GroupInstance> instances;
  std::vector<std::uint32_t> instance_of;   // [simulated rank][group]
  std::vector<std::uint32_t> peer_of;       // [simulated rank][pp coordinate] -> simulated rank
  std::vector<std::int64_t> duration;       // by function, in ps
  Rank straggler = -1;                      // -1: none
  std::vector<std::int64_t> slow_duration;  // by function, on the straggler
  IndexVector<FunctionId, std::int64_t> host_duration;  // by function, if the host computes it
  bool crowded_devices = false;  // a device may have more activities than run at full rate
  bool cores_transfer = false;  // transfers among a device's ranks are its cores' work as calls are
  bool shared_devices = false;  // and these are of several ranks
  std::int64_t hand_over = 0;   // in ps: what waking a stream takes
  SampleTimes samples;          // EngineOptions::samples
  bool shared_drives = false;   // ranks of a node read and write its drives,
  DriveGroups drives;           // in these groups
  bool shared_ports = false;    // transfers at one time divide the ports of a rank
  int message_parts = 1;        // tensor-parallel ranks that send a part of a message each,
  GroupLinks message_links;     // and the links over which they gather it
};

/// The cluster as `what_if` changes it, with the bandwidth of its links scaled.
ClusterSpec apply(const WhatIfSpec& what_if, ClusterSpec cluster);

Result<Plan> make_plan(const Program& program, const ClusterSpec& cluster,
                       const WhatIfSpec& what_if, bool fold_ranks);

}  // namespace lockstep::sim
