// Collective: how long a collective takes, from its kind, its size and its group's links, by the
// algorithm that the library chooses.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "core/cost/network.hpp"

namespace lockstep {

/// How a collective goes through its group.
/// - Ring: data go round a ring of all members; the ring of a broadcast is a chain.
/// - Tree: members form a chain inside each node, and the nodes a double binary tree.
/// - Nvls: the node's switch reduces (NVLink SHARP).
/// - NvlsTree: the switch reduces inside each node, and a tree connects the nodes.
/// - Pairwise: a member exchanges data with each other member (all-to-all).
enum class CollectiveAlgorithm { Ring, Tree, Nvls, NvlsTree, Pairwise };
/// How NCCL sends data.
/// - LL: a flag stands beside every 4 bytes; a step takes few microseconds, at half of the
///   bandwidth.
/// - LL128: flags stand beside every 120 bytes, which inside a node needs NVLink.
/// - Simple: whole chunks are sent, and then a flag.
/// - Plain: no protocol of NCCL's, but the plain steps of CollectiveLibrary::Ring.
enum class CollectiveProtocol { Plain, LL, LL128, Simple };
std::string_view to_string(CollectiveAlgorithm algorithm);
std::string_view to_string(CollectiveProtocol protocol);

struct CollectiveTime {
  CollectiveAlgorithm algorithm = CollectiveAlgorithm::Ring;
  CollectiveProtocol protocol = CollectiveProtocol::Plain;
  TransferTime time;
  Seconds estimate;  // what the library itself expects, by which it chooses
};

/// The time of a collective of S = `full` bytes among n members by plain steps over a link of
/// latency alpha and bandwidth B (Thakur, Rabenseifner, Gropp 2005). An all-reduce over a ring
/// takes 2(n-1)(alpha + S/(n·B)), an all-gather or a reduce-scatter (n-1)(alpha + S/(n·B)). An
/// all-to-all by pairwise exchange takes (n-1)(alpha + S/(n·B)), and a broadcast along a pipelined
/// chain (n-1)·alpha + S/B.
TransferTime ring_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link);

/// Every way in which the cluster's library may carry out a collective. The ring library has only
/// one.
std::vector<CollectiveTime> collective_choices(OpKind kind, Bytes full, int group_size,
                                               const GroupLinks& links, const ClusterSpec& cluster);
/// The way that the library takes, which is the one with the least estimate. With `only` it chooses
/// among the ways of that algorithm, if there are any.
CollectiveTime collective_time(OpKind kind, Bytes full, int group_size, const GroupLinks& links,
                               const ClusterSpec& cluster,
                               std::optional<CollectiveAlgorithm> only = std::nullopt);

}  // namespace lockstep
