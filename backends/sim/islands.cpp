#include "backends/sim/islands.hpp"

#include <algorithm>
#include <numeric>

#include "core/base/index_vector.hpp"

namespace lockstep::sim {
namespace {

/// Disjoint sets of ranks; the smallest rank stands for its set.
class DisjointSets {
 public:
  explicit DisjointSets(std::size_t count) : parent_(count) {
    std::iota(parent_.begin(), parent_.end(), 0u);
  }
  std::uint32_t of(std::uint32_t rank) {
    while (parent_[rank] != rank) rank = parent_[rank] = parent_[parent_[rank]];
    return rank;
  }
  void join(std::uint32_t a, std::uint32_t b) {
    a = of(a), b = of(b);
    parent_[std::max(a, b)] = std::min(a, b);
  }

 private:
  std::vector<std::uint32_t> parent_;
};

/// Whether copies of the model meet in a group.
bool joins_copies(const Mesh& mesh, const Group& group) {
  return std::any_of(group.dims.begin(), group.dims.end(),
                     [&](int dim) { return mesh.dims[dim].name.starts_with("dp_"); });
}

}  // namespace

Islands find_islands(const Program& program, const Plan& plan) {
  const auto count = static_cast<std::uint32_t>(plan.folding.representatives.size());
  const std::size_t num_groups = program.groups.size();
  const std::size_t num_pp = to_size(program.mesh.size_of("pp"));
  const auto role_of = [&](std::uint32_t i) -> const RolePlan& {
    return plan.roles[program.role_of_rank[plan.folding.representatives[i]]];
  };
  const auto instance = [&](std::uint32_t i, GroupId g) {
    return plan.instance_of[i * num_groups + to_size(g)];
  };
  DisjointSets sets(count);
  std::vector<std::uint32_t> first(plan.instances.size(), count);  // member, by instance
  for (std::uint32_t i = 0; i < count; ++i) {
    if (plan.shared_devices) sets.join(0, i);
    if (plan.shared_drives) sets.join(plan.drives.ranks[plan.drives.group_of[i]].front(), i);
    for (const int peer : role_of(i).peers) sets.join(i, plan.peer_of[i * num_pp + to_size(peer)]);
    for (const GroupId g : role_of(i).groups) {
      std::uint32_t& member = first[instance(i, g)];
      if (member == count) member = i;
      if (!joins_copies(program.mesh, program.group(g))) sets.join(i, member);
    }
  }
  Islands islands{{}, std::vector<char>(plan.instances.size(), 0)};
  std::vector<std::size_t> place(count);  // of an island, by its smallest rank
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t smallest = sets.of(i);
    if (smallest == i) {
      place[i] = islands.ranks.size();
      islands.ranks.emplace_back();
    }
    islands.ranks[place[smallest]].push_back(i);
    for (const GroupId g : role_of(i).groups) {
      if (sets.of(first[instance(i, g)]) != smallest) islands.bridges[instance(i, g)] = 1;
    }
  }
  return islands;
}

}  // namespace lockstep::sim
