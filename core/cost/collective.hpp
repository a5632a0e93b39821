// Collective: kind, size and a group's links -> Seconds, by the algorithm that the library chooses.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/cost/network.hpp"

namespace lockstep {

/// Ring, also of a broadcast, whose ring is a chain; Tree: a chain inside each node, a double
/// binary tree over the nodes; Nvls: the node's switch reduces (NVLink SHARP); NvlsTree: that
/// inside the nodes and a tree over them; Pairwise: an exchange with each other member
/// (all-to-all).
enum class CollectiveAlgorithm { Ring, Tree, Nvls, NvlsTree, Pairwise };
/// Of NCCL. LL: flags beside every 4 bytes, few microseconds, half of the bandwidth. LL128: flags
/// beside every 120 bytes, NVLink only. Simple: whole chunks, then a flag. Plain: without a
/// library.
enum class CollectiveProtocol { Plain, LL, LL128, Simple };
std::string_view to_string(CollectiveAlgorithm algorithm);
std::string_view to_string(CollectiveProtocol protocol);

struct CollectiveTime {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  CollectiveProtocol protocol = CollectiveProtocol::Plain;
  TransferTime time;
  Seconds estimate;  // the library's own, by which it chooses
};

/// Rings of plain steps over a link of the group (Thakur, Rabenseifner, Gropp 2005): all-reduce
/// 2(n-1)(alpha + S/(n·B)), all-gather and reduce-scatter (n-1)(alpha + S/(n·B)); all-to-all by
/// pairwise exchange (n-1)(alpha + S/(n·B)), broadcast along a pipelined chain (n-1)·alpha + S/B.
TransferTime ring_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link);

/// Every way in which the cluster's library may carry a collective out; one of the ring library.
std::vector<CollectiveTime> collective_choices(OpKind kind, Bytes full, int group_size,
                                               const GroupLinks& links, const ClusterSpec& cluster);
/// The one that the library takes, of the least estimate. `only`: of this algorithm, if there are
/// any.
CollectiveTime collective_time(OpKind kind, Bytes full, int group_size, const GroupLinks& links,
                               const ClusterSpec& cluster,
                               std::optional<CollectiveAlgorithm> only = std::nullopt);

}  // namespace lockstep
