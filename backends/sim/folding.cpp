#include "backends/sim/folding.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "core/base/index_vector.hpp"
#include "core/base/mix.hpp"

namespace lockstep::sim {
namespace {

using Colours = IndexVector<Rank, std::uint64_t>;  // by rank

constexpr std::uint64_t joined(std::uint64_t a, std::uint64_t b) { return mix64(a ^ mix64(b)); }

/// The sets of ranks of one group that meet in its collectives.
struct Sets {
  std::vector<std::vector<Rank>> ranks;
  std::vector<std::uint64_t> links;          // by set; equal numbers stand for equal links
  IndexVector<Rank, std::uint32_t> of_rank;  // the set of each rank whose role uses the group
};

const RolePlan& role_of(const Program& program, const IndexVector<RoleId, RolePlan>& roles,
                        Rank rank) {
  return roles[program.role_of_rank[rank]];
}

IndexVector<GroupId, Sets> sets_of_groups(const Program& program, const ClusterSpec& cluster,
                                          const IndexVector<RoleId, RolePlan>& roles) {
  const Rank world = program.mesh.world_size();
  std::vector<GroupLinks> known;
  IndexVector<GroupId, Sets> groups(program.groups.size());
  IndexVector<Rank, char> placed;
  for (const GroupId g : groups.ids()) {
    Sets& sets = groups[g];
    sets.of_rank.resize(world);
    placed.assign(world, 0);
    for (Rank rank = 0; rank < world; ++rank) {
      const std::vector<GroupId>& used = role_of(program, roles, rank).groups;
      if (placed[rank] != 0 || std::find(used.begin(), used.end(), g) == used.end()) {
        continue;
      }
      std::vector<Rank> ranks = members(program.mesh, program.groups[g], rank);
      for (const Rank r : ranks) {
        placed[r] = 1;
        sets.of_rank[r] = static_cast<std::uint32_t>(sets.ranks.size());
      }
      const GroupLinks links = group_links(cluster, ranks);
      const auto at = std::find(known.begin(), known.end(), links);
      sets.links.push_back(static_cast<std::uint64_t>(at - known.begin()));
      if (at == known.end()) known.push_back(links);
      sets.ranks.push_back(std::move(ranks));
    }
  }
  return groups;
}

/// Refines the colours once: ranks of one colour get different ones if they meet ranks of different
/// colours, or meet them over different links.
Colours refined(const Program& program, const ClusterSpec& cluster,
                const IndexVector<RoleId, RolePlan>& roles,
                const IndexVector<GroupId, Sets>& groups, const Colours& colours) {
  IndexVector<GroupId, std::vector<std::uint64_t>> met(groups.size());  // by group and set
  for (const GroupId g : groups.ids()) {
    for (std::size_t s = 0; s < groups[g].ranks.size(); ++s) {
      std::uint64_t sum = 0;  // does not depend on the order of the ranks
      for (const Rank r : groups[g].ranks[s]) sum += mix64(colours[r]);
      met[g].push_back(joined(sum, groups[g].links[s]));
    }
  }
  const int pp = program.mesh.index_of("pp");
  Colours result = colours;
  for (const Rank rank : result.ids()) {
    const RolePlan& role = role_of(program, roles, rank);
    for (const GroupId g : role.groups) {
      result[rank] = joined(result[rank], met[g][groups[g].of_rank[rank]]);
    }
    for (const int coordinate : role.peers) {
      const Rank peer = program.mesh.with_coordinate(rank, pp, coordinate);
      const LinkSpec link = link_between(cluster, rank, peer);
      const std::uint64_t figures = joined(std::bit_cast<std::uint64_t>(link.bandwidth.v),
                                           std::bit_cast<std::uint64_t>(link.latency.v));
      const std::uint64_t near = same_node(cluster, rank, peer) ? 1 : 0;
      result[rank] = joined(result[rank], joined(colours[peer], joined(figures, near)));
    }
  }
  return result;
}

}  // namespace

Folding fold_alike(const Program& program, const ClusterSpec& cluster,
                   const IndexVector<RoleId, RolePlan>& roles, Rank straggler) {
  const auto world = static_cast<std::size_t>(program.mesh.world_size());
  const IndexVector<GroupId, Sets> groups = sets_of_groups(program, cluster, roles);
  Colours colours(world);
  for (std::size_t r = 0; r < world; ++r) {
    const auto role = static_cast<std::uint64_t>(program.role_of_rank[r].v);
    colours[r] = joined(role, static_cast<Rank>(r) == straggler ? 1 : 0);
  }
  const auto classes = [&] {
    return std::unordered_set<std::uint64_t>(colours.begin(), colours.end()).size();
  };
  for (std::size_t before = 0, now = classes(); now > before; now = classes()) {
    before = now;
    colours = refined(program, cluster, roles, groups, colours);
  }
  Folding folding;
  std::unordered_map<std::uint64_t, Rank> first;
  for (std::size_t r = 0; r < world; ++r) {
    const auto [at, inserted] = first.try_emplace(colours[r], static_cast<Rank>(r));
    if (inserted) folding.representatives.push_back(static_cast<Rank>(r));
    folding.representative_of.push_back(at->second);
  }
  return folding;
}

}  // namespace lockstep::sim
