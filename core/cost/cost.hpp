// Cost: transfers -> Seconds, beside kernels. Pure functions of the cluster; no state.
#pragma once

#include "core/cluster/cluster.hpp"
#include "core/cost/kernel_time.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// alpha-beta: `latency` before the first byte, `transfer` while the link is busy.
struct TransferTime {
  Seconds latency, transfer;
  Seconds total() const { return latency + transfer; }
};

/// Ring algorithms over a link of the group, see group_links() (Thakur, Rabenseifner, Gropp 2005):
/// all-reduce 2(n-1)(alpha + S/(n·B)), all-gather and reduce-scatter (n-1)(alpha + S/(n·B));
/// all-to-all by pairwise exchange (n-1)(alpha + S/(n·B)), broadcast along a pipelined chain
/// (n-1)·alpha + S/B. A bandwidth of 0 is not modelled: its transfers take their latency only.
TransferTime collective_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link);
TransferTime p2p_time(Bytes bytes, const LinkSpec& link);

/// The link between two ranks of the mesh; ranks fill devices and nodes in order.
LinkSpec link_between(const ClusterSpec& cluster, Rank a, Rank b);

/// A group's links as one member sees them. Inside a node: the node's. Where the group spans nodes,
/// every device has a port of its own to the network, and collectives use all of a node's at once
/// (NCCL: a ring through each port). With n members, m of them on d devices of one node, that node
/// takes in S(1 - m/n) through d ports, so a ring progresses as over a link of d(n-1)/(n-m) ports:
/// (n-1)/(k-1) of them for k equal nodes, the factor between bus bandwidth and the rate of a port.
/// In an exchange (all-to-all) a member sends (n-m)/n of its data over its device's port. Neither
/// is faster than the links inside a node. The latency is the network's.
struct GroupLinks {
  LinkSpec ring, exchange;
  const LinkSpec& of(OpKind kind) const { return kind == OpKind::AllToAll ? exchange : ring; }
  bool operator==(const GroupLinks&) const = default;
};
/// `ranks`: ascending.
GroupLinks group_links(const ClusterSpec& cluster, const std::vector<Rank>& ranks);

}  // namespace lockstep
