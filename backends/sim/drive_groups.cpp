#include "backends/sim/drive_groups.hpp"

#include <algorithm>
#include <map>

#include "core/base/index_vector.hpp"

namespace lockstep::sim {

std::optional<DriveGroups> drive_groups(const Folding& folding, int ranks_per_node) {
  constexpr std::uint32_t kNone = ~std::uint32_t{0};
  using Company = std::map<std::uint32_t, int>;  // how many ranks of a node, by simulated rank
  std::vector<Company> nodes;
  for (const Rank rank : folding.representative_of.ids()) {
    const auto place =
        std::lower_bound(folding.representatives.begin(), folding.representatives.end(),
                         folding.representative_of[rank]);
    const auto simulated = static_cast<std::uint32_t>(place - folding.representatives.begin());
    nodes.resize(std::max(nodes.size(), to_size(rank / ranks_per_node) + 1));
    ++nodes[to_size(rank / ranks_per_node)][simulated];
  }
  DriveGroups groups;
  groups.group_of.assign(folding.representatives.size(), kNone);
  groups.weight.assign(folding.representatives.size(), 0);
  std::map<Company, std::uint32_t> known;
  for (const Company& node : nodes) {
    const auto [group, fresh] =
        known.try_emplace(node, static_cast<std::uint32_t>(groups.ranks.size()));
    if (!fresh) continue;
    groups.ranks.emplace_back();
    for (const auto& [simulated, count] : node) {
      if (groups.group_of[simulated] != kNone) return std::nullopt;
      groups.group_of[simulated] = group->second;
      groups.weight[simulated] = count;
      groups.ranks.back().push_back(simulated);
    }
  }
  return groups;
}

}  // namespace lockstep::sim
