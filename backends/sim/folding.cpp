#include "backends/sim/folding.hpp"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <unordered_map>
#include <unordered_set>

#include "core/base/mix.hpp"

namespace lockstep::sim {
namespace {

using Colours = std::vector<std::uint64_t>;  // by rank

constexpr std::uint64_t joined(std::uint64_t a, std::uint64_t b) { return mix64(a ^ mix64(b)); }

/// The sets of ranks of one group that meet in its collectives.
struct Sets {
  std::vector<std::vector<Rank>> ranks;
  std::vector<std::uint64_t> links;    // by set; equal numbers stand for equal links
  std::vector<std::uint32_t> of_rank;  // the set of each rank whose role uses the group
};

const RolePlan& role_of(const Program& program, const std::vector<RolePlan>& roles, Rank rank) {
  return roles[static_cast<std::size_t>(program.role_of_rank[static_cast<std::size_t>(rank)].v)];
}

std::vector<Sets> sets_of_groups(const Program& program, const ClusterSpec& cluster,
                                 const std::vector<RolePlan>& roles) {
  const Rank world = program.mesh.world_size();
  std::vector<GroupLinks> known;
  std::vector<Sets> groups(program.groups.size());
  std::vector<char> placed;
  for (std::size_t g = 0; g < groups.size(); ++g) {
    Sets& sets = groups[g];
    sets.of_rank.resize(static_cast<std::size_t>(world));
    placed.assign(static_cast<std::size_t>(world), 0);
    for (Rank rank = 0; rank < world; ++rank) {
      const std::vector<GroupId>& used = role_of(program, roles, rank).groups;
      const GroupId id{static_cast<std::int32_t>(g)};
      if (placed[static_cast<std::size_t>(rank)] != 0 ||
          std::find(used.begin(), used.end(), id) == used.end()) {
        continue;
      }
      std::vector<Rank> ranks = members(program.mesh, program.groups[g], rank);
      for (const Rank r : ranks) {
        placed[static_cast<std::size_t>(r)] = 1;
        sets.of_rank[static_cast<std::size_t>(r)] = static_cast<std::uint32_t>(sets.ranks.size());
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
                const std::vector<RolePlan>& roles, const std::vector<Sets>& groups,
                const Colours& colours) {
  std::vector<Colours> met(groups.size());  // by group and set
  for (std::size_t g = 0; g < groups.size(); ++g) {
    for (std::size_t s = 0; s < groups[g].ranks.size(); ++s) {
      std::uint64_t sum = 0;  // does not depend on the order of the ranks
      for (const Rank r : groups[g].ranks[s]) sum += mix64(colours[static_cast<std::size_t>(r)]);
      met[g].push_back(joined(sum, groups[g].links[s]));
    }
  }
  const int pp = program.mesh.index_of("pp");
  Colours result = colours;
  for (std::size_t i = 0; i < result.size(); ++i) {
    const auto rank = static_cast<Rank>(i);
    const RolePlan& role = role_of(program, roles, rank);
    for (const GroupId g : role.groups) {
      const auto group = static_cast<std::size_t>(g.v);
      result[i] = joined(result[i], met[group][groups[group].of_rank[i]]);
    }
    for (const int coordinate : role.peers) {
      const Rank peer = program.mesh.with_coordinate(rank, pp, coordinate);
      const LinkSpec link = link_between(cluster, rank, peer);
      const std::uint64_t figures = joined(std::bit_cast<std::uint64_t>(link.bandwidth.v),
                                           std::bit_cast<std::uint64_t>(link.latency.v));
      const std::uint64_t near = same_node(cluster, rank, peer) ? 1 : 0;
      result[i] =
          joined(result[i], joined(colours[static_cast<std::size_t>(peer)], joined(figures, near)));
    }
  }
  return result;
}

}  // namespace

Folding fold_alike(const Program& program, const ClusterSpec& cluster,
                   const std::vector<RolePlan>& roles, Rank straggler) {
  const auto world = static_cast<std::size_t>(program.mesh.world_size());
  const std::vector<Sets> groups = sets_of_groups(program, cluster, roles);
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
