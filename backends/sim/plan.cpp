#include "backends/sim/plan.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <string>
#include <utility>

#include "backends/sim/folding.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::sim {
namespace {

template <class T>
void sort_unique(std::vector<T>& values) {
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
}

bool on_its_stream(const Op& op) {
  if (op.kind == OpKind::Send) {
    return op.stream == Stream::SendForward || op.stream == Stream::SendBackward;
  }
  if (op.kind == OpKind::Recv) {
    return op.stream == Stream::RecvForward || op.stream == Stream::RecvBackward;
  }
  return true;
}

Result<RolePlan> plan_role(const Program& program, const Role& role) {
  RolePlan plan;
  bool collectives = false;
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (!on_its_stream(op)) {
      return Error{ErrorKind::Internal,
                   "op " + std::to_string(i) + " (" +
                       describe(program, role, OpId{static_cast<std::int32_t>(i)}) +
                       ") is on stream " + std::string(to_string(op.stream)) +
                       ", which carries no messages",
                   {}};
    }
    collectives |= is_collective(op.kind);
  }
  plan.order = stream_order(role);
  if (collectives) {
    plan.seq.resize(role.ops.size());
    plan.payload.resize(role.ops.size());
  }
  IndexVector<GroupId, std::int32_t> next_seq(program.groups.size(), 0);
  IndexVector<int, char> has_peer(program.mesh.size_of("pp"), 0);
  for (std::size_t i = 0; i < role.ops.size(); ++i) {
    const Op& op = role.ops[i];
    if (is_collective(op.kind)) {
      plan.seq[i] = next_seq[op.group()]++;
      plan.payload[i] = payload_bytes(program, role, op);
    }
    if (is_p2p(op.kind)) has_peer[op.peer()] = 1;
  }
  for (const GroupId g : next_seq.ids()) {
    if (next_seq[g] > 0) plan.groups.push_back(g);
  }
  for (const int p : has_peer.ids()) {
    if (has_peer[p] != 0) plan.peers.push_back(p);
  }
  return plan;
}

Folding identity(int world_size) {
  Folding folding;
  folding.representative_of.resize(world_size);
  std::iota(folding.representative_of.begin(), folding.representative_of.end(), 0);
  folding.representatives = folding.representative_of;
  return folding;
}

/// For each rank, the position of its representative among the representatives.
IndexVector<Rank, std::uint32_t> simulated_index(const Folding& folding) {
  IndexVector<Rank, std::uint32_t> index(folding.representative_of.size());
  for (std::size_t i = 0; i < folding.representatives.size(); ++i) {
    index[folding.representatives[i]] = static_cast<std::uint32_t>(i);
  }
  for (const Rank r : index.ids()) index[r] = index[folding.representative_of[r]];
  return index;
}

std::vector<Port> ports_of(const GroupLinks& links, const std::vector<std::uint32_t>& ranks) {
  std::vector<Port> ports;
  for (const std::uint32_t rank : ranks) {
    for (const bool out : {false, true}) {
      if (links.per_node > 1) ports.push_back(port_of(rank, true, out));
      if (links.nodes > 1) ports.push_back(port_of(rank, false, out));
    }
  }
  return ports;
}

void plan_meetings(const Program& program, const ClusterSpec& cluster, Plan& plan) {
  const Mesh& mesh = program.mesh;
  const IndexVector<Rank, std::uint32_t> index = simulated_index(plan.folding);
  const std::size_t num_groups = program.groups.size();
  const std::size_t num_pp = to_size(mesh.size_of("pp"));
  const int pp = mesh.index_of("pp");
  plan.instance_of.resize(plan.folding.representatives.size() * num_groups);
  plan.peer_of.resize(plan.folding.representatives.size() * num_pp);
  std::map<std::pair<std::int32_t, std::uint32_t>, std::uint32_t> known;  // (group, first member)
  for (std::size_t i = 0; i < plan.folding.representatives.size(); ++i) {
    const Rank rank = plan.folding.representatives[i];
    const RoleId role = program.role_of_rank[rank];
    for (const GroupId g : plan.roles[role].groups) {
      const std::vector<Rank> ranks = members(mesh, program.group(g), rank);
      std::vector<std::uint32_t> simulated;
      for (const Rank r : ranks) simulated.push_back(index[r]);
      sort_unique(simulated);
      const auto [it, inserted] = known.try_emplace(
          {g.v, simulated.front()}, static_cast<std::uint32_t>(plan.instances.size()));
      if (inserted) {
        const GroupLinks links = group_links(cluster, ranks);
        plan.instances.push_back({static_cast<std::uint32_t>(simulated.size()),
                                  static_cast<int>(ranks.size()), links, ports_of(links, simulated),
                                  simulated});
      }
      plan.instance_of[i * num_groups + to_size(g)] = it->second;
    }
    for (std::size_t c = 0; c < num_pp; ++c) {
      const Rank peer = pp < 0 ? rank : mesh.with_coordinate(rank, pp, static_cast<int>(c));
      plan.peer_of[i * num_pp + c] = index[peer];
    }
  }
}

/// On how many streams a rank's device has calls; the most of all roles.
int busy_streams(const Program& program, bool cores_transfer) {
  std::ptrdiff_t most = 0;
  for (const Role& role : program.roles) {
    IndexArray<Stream, bool, kNumStreams> busy{};
    for (const Op& op : role.ops) {
      const bool computes = op.kind == OpKind::Call && op.stream != Stream::Host;
      const bool transfers = is_collective(op.kind) || is_p2p(op.kind);
      if (computes || (cores_transfer && transfers)) busy[op.stream] = true;
    }
    most = std::max(most, std::count(busy.begin(), busy.end(), true));
  }
  return static_cast<int>(most);
}

bool uses_drives(const Program& program) {
  return std::any_of(program.roles.begin(), program.roles.end(),
                     [](const Role& role) { return role.drive_arena.v > 0; });
}

}  // namespace

ClusterSpec apply(const WhatIfSpec& what_if, ClusterSpec cluster) {
  cluster.intra_node.bandwidth.v *= what_if.bandwidth_factor;
  cluster.inter_node.bandwidth.v *= what_if.bandwidth_factor;
  cluster.network.in_switch_reduction.v *= what_if.bandwidth_factor;
  cluster.network.low_latency.v *= what_if.bandwidth_factor;
  return cluster;
}

Result<Plan> make_plan(const Program& program, const ClusterSpec& cluster,
                       const WhatIfSpec& what_if, bool fold_ranks) {
  Plan plan;
  const int world_size = program.mesh.world_size();
  for (const Role& role : program.roles) {
    Result<RolePlan> role_plan = plan_role(program, role);
    if (!role_plan) return role_plan.error();
    role_plan->beside = beside_products(program, role, cluster);
    role_plan->parameters = moved_parameters(program, role, cluster.framework);
    role_plan->launched = launch_times(program, role, cluster.framework);
    plan.roles.push_back(std::move(*role_plan));
  }
  const DeviceSpec host = host_of(cluster.device);
  for (const Function& function : program.functions) {
    const Seconds time = function_time(function, cluster.device, cluster.framework);
    plan.duration.push_back(to_sim_time(time).count());
    plan.slow_duration.push_back(to_sim_time(what_if.straggler_slowdown * time).count());
    plan.host_duration.push_back(to_sim_time(function_time(function, host)).count());
  }
  if (what_if.straggler_rank < world_size && what_if.straggler_slowdown != 1) {
    plan.straggler = what_if.straggler_rank;
  }
  // The given times of the synthetic model hold whatever shares a device or carries them out.
  const bool given = program.p2p_latency.v >= 0, moves = !given && !what_if.ideal_network;
  const int ranks = std::min(cluster.ranks_per_device, world_size);
  plan.cores_transfer = moves && cluster.device.is_host() && ranks > 1;
  plan.hand_over = moves ? to_sim_time(cluster.device.hand_over).count() : 0;
  plan.crowded_devices = !given && ranks * busy_streams(program, plan.cores_transfer) >
                                       std::max(1, cluster.device.concurrent_ranks);
  plan.shared_devices = plan.crowded_devices && ranks > 1;
  plan.shared_drives = uses_drives(program);
  if (plan.shared_drives && cluster.drives.count == 0) {
    return invalid("the program keeps states on drives, and the nodes of cluster '" + cluster.name +
                   "' have none: say cluster.drives.count, read_gb_s and write_gb_s");
  }
  plan.shared_ports = moves && cluster.network.library == CollectiveLibrary::Nccl;
  if (fold_ranks && !plan.shared_devices && !what_if.varies()) {
    plan.folding = fold_alike(program, cluster, plan.roles, plan.straggler);
  } else {
    plan.folding = identity(world_size);
  }
  if (plan.shared_drives) {
    const int per_node = std::max(1, cluster.ranks_per_node());
    std::optional<DriveGroups> groups = drive_groups(plan.folding, per_node);
    if (!groups) {
      plan.folding = identity(world_size);
      groups = drive_groups(plan.folding, per_node);
    }
    plan.drives = std::move(*groups);
  }
  plan_meetings(program, cluster, plan);
  if (cluster.framework.scatters_messages) {
    plan.message_parts = tensor_ranks(program.mesh);
    std::vector<Rank> first(to_size(plan.message_parts));  // tp varies fastest
    std::iota(first.begin(), first.end(), 0);
    plan.message_links = group_links(cluster, first);
  }
  return plan;
}

}  // namespace lockstep::sim
