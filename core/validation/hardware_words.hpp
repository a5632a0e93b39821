// Hardware words: cards, NVLink domains and networks as people write them.
#pragma once

#include <optional>
#include <string_view>

namespace lockstep {

struct CardName {
  std::string_view name;     // what a published name contains
  std::string_view profile;  // in hardware/; empty: none
  double compute_capability = 0;
};
/// The card of a published name; a profile that is empty if there is none.
CardName card_of(std::string_view hw);
std::string_view profile_of(std::string_view hw);

/// How many GPUs NVLink connects, where a text says so: "NVL72", or a card that is built into such
/// racks alone. nullopt if it says nothing.
std::optional<long> nvlink_domain(std::string_view hw, std::string_view interconnect);

/// The rate of a GPU's share of the network in Gb/s, from a text of the form
///   [count "x"] rate unit [kind] ["x" count] ["per" what] [count "NICs"] ["per" what]
/// in any order, with a generation of InfiniBand ("NDR") in place of a rate: "8x400G IB", "IB NDR
/// 400 per GPU", "EFA 3200 Gbps", "HDR 200Gb/s, 4 NICs per node". What is said of NVLink, PCIe and
/// the like is skipped. A rate alone is a GPU's, as every GPU of the makers' nodes has a port, but
/// for Ethernet, EFA and what no port reaches (more than 800 Gb/s), which are a node's.
/// nullopt if the text names no rate.
std::optional<double> gpu_gigabits(std::string_view interconnect, long gpus_per_node);

}  // namespace lockstep
