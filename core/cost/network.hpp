// Network: the links that messages and groups of ranks have, as pure functions of the cluster.
#pragma once

#include <vector>

#include "core/cluster/cluster.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// A time by the alpha-beta model: `latency` passes before the first byte, and `transfer` while the
/// link is busy.
struct TransferTime {
  Seconds latency, transfer;
  Seconds total() const { return latency + transfer; }
};

/// The time of a message over a link. A bandwidth of 0 is not modelled, and the message then takes
/// the latency only.
TransferTime p2p_time(Bytes bytes, const LinkSpec& link);

/// The link between two ranks of the mesh; ranks fill devices and nodes in order. With NCCL the
/// latency of a Simple step over the link is added to its own. Across leaves its bandwidth is the
/// part of the uplinks that a port has when all send, and a spine's latency comes on top.
LinkSpec link_between(const ClusterSpec& cluster, Rank a, Rank b);
bool same_node(const ClusterSpec& cluster, Rank a, Rank b);

/// The network as one device sees it: where ports_per_node is given, the devices of a node divide
/// its ports evenly. That is what max-min fairness gives to groups that all send at once, such as
/// the gradients of every tensor-parallel rank.
LinkSpec device_port(const ClusterSpec& cluster);

/// A group's links as one member sees them.
///
/// Inside a node these are the node's links. Where a node has no switch, a device has links to its
/// d - 1 neighbours, and a member uses those to the m - 1 other members only.
///
/// Where the group spans nodes, collectives use the ports of all members on a node at once, as NCCL
/// has a ring through each. With n members, m of them on q devices of one node, that node takes in
/// S(1 - m/n) bytes of a buffer of S through q ports. A ring therefore progresses as over a link of
/// q(n-1)/(n-m) ports. For k equal nodes these are (n-1)/(k-1), the factor between bus bandwidth
/// and the rate of a port. In an exchange (all-to-all) a member sends (n-m)/n of its data over its
/// device's port. Neither is faster than the links inside a node.
///
/// Where the group spans leaves and has k' nodes on each, one of these sends a ring's data on to
/// the next leaf, while every uplink is shared by `oversubscription` ports. A ring therefore has k'
/// / oversubscription of the ports' rate, if that is below 1. In an exchange (k-k')/(k-1) of what a
/// port carries crosses a spine.
struct GroupLinks {
  LinkSpec ring, exchange;
  LinkSpec next;  // the slowest from a member to the next, for messages that all send at once
  int nodes = 1;
  int per_node = 1;       // the most members on one node
  int leaves = 1;         // leaf switches that its nodes are on
  BytesPerSecond inside;  // a ring's bandwidth inside a node
  BytesPerSecond ports;   // of the ports of the members on one node together
  const LinkSpec& of(OpKind kind) const {
    return is_exchange(kind) ? exchange : kind == OpKind::Rotate ? next : ring;
  }
  bool operator==(const GroupLinks&) const = default;
};
/// The links of the group of `ranks`, which must be in ascending order.
GroupLinks group_links(const ClusterSpec& cluster, const std::vector<Rank>& ranks);

}  // namespace lockstep
