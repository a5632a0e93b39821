// Drive groups: the simulated ranks that share the drives of a node.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep::sim {

/// Nodes whose ranks are represented alike, each as often, are one group: what is read and written
/// on the drives of each of them is the same at any time.
struct DriveGroups {
  std::vector<std::uint32_t> group_of;            // by simulated rank
  std::vector<int> weight;                        // by simulated rank: of how many of a node's
                                                  // ranks it stands for
  std::vector<std::vector<std::uint32_t>> ranks;  // by group: simulated ranks
};

/// The groups of all ranks. nullopt if a simulated rank stands for ranks of nodes
/// that are not alike.
std::optional<DriveGroups> drive_groups(const Folding& folding, int ranks_per_node);

}  // namespace lockstep::sim
