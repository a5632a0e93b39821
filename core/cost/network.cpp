#include "core/cost/network.hpp"

#include <algorithm>
#include <limits>

#include "core/cost/nccl.hpp"

namespace lockstep {
namespace {

int node_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_node());
}
int device_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_device);
}

/// How many nodes one leaf switch connects; 0 if it connects all.
int nodes_per_leaf(const ClusterSpec& cluster) {
  const NetworkSpec& network = cluster.network;
  if (network.leaf_ports == 0) return 0;
  const int ports = network.ports_per_node > 0 ? network.ports_per_node : cluster.devices_per_node;
  return std::max(1, network.rails ? network.leaf_ports : network.leaf_ports / ports);
}
int leaf_of(const ClusterSpec& cluster, int node) {
  const int nodes = nodes_per_leaf(cluster);
  return nodes == 0 ? 0 : node / nodes;
}

/// The part of a device's bandwidth inside the node that leads to `others` of its neighbours. With
/// a switch it is all; without one the device has a link to each neighbour.
double part_of_links(const ClusterSpec& cluster, int others) {
  const int neighbours = cluster.devices_per_node - 1;
  if (cluster.network.switched || neighbours <= others || others < 1) return 1;
  return static_cast<double>(others) / neighbours;
}

/// How many members a group has on one of its nodes, and on how many devices.
struct OnNode {
  int node = 0;
  double members = 0, devices = 0;
};
std::vector<OnNode> by_node(const ClusterSpec& cluster, const std::vector<Rank>& ranks) {
  std::vector<OnNode> nodes;
  int device = -1;
  for (const Rank rank : ranks) {
    const int node = node_of(cluster, rank);
    if (nodes.empty() || nodes.back().node != node) nodes.push_back({node, 0, 0});
    ++nodes.back().members;
    if (device_of(cluster, rank) != device) ++nodes.back().devices;
    device = device_of(cluster, rank);
  }
  return nodes;
}

}  // namespace

TransferTime p2p_time(Bytes bytes, const LinkSpec& link) {
  return {link.latency, link.bandwidth.v > 0 ? bytes / link.bandwidth : Seconds{}};
}

bool same_node(const ClusterSpec& cluster, Rank a, Rank b) {
  return node_of(cluster, a) == node_of(cluster, b);
}

LinkSpec device_port(const ClusterSpec& cluster) {
  LinkSpec port = cluster.inter_node;
  if (cluster.network.ports_per_node > 0) {
    port.bandwidth.v *= static_cast<double>(cluster.network.ports_per_node) /
                        static_cast<double>(cluster.devices_per_node);
  }
  return port;
}

LinkSpec link_between(const ClusterSpec& cluster, Rank a, Rank b) {
  const bool near = same_node(cluster, a, b);
  LinkSpec link = near ? cluster.intra_node : device_port(cluster);
  if (near) {
    link.bandwidth.v *= part_of_links(cluster, 1);
  } else if (leaf_of(cluster, node_of(cluster, a)) != leaf_of(cluster, node_of(cluster, b))) {
    link.bandwidth.v /= cluster.network.oversubscription;
    link.latency += cluster.network.spine_latency;
  }
  if (cluster.network.library == CollectiveLibrary::Nccl) {
    link.latency += nccl_step(cluster.network.node_link, near);
  }
  return link;
}

/// The bandwidth that a device's ring has between the node's processors; infinite if the ring does
/// not go from one to the other. A ring through some but not all devices of a node leaves it by the
/// port that it came in by, which is next to its first device and not to its last one. All rings of
/// a node share both directions.
static double over_sockets(const ClusterSpec& cluster, const OnNode& node) {
  const bool some = node.devices > 1 && node.devices < cluster.devices_per_node;
  if (!some || !(cluster.network.sockets.v > 0)) return std::numeric_limits<double>::infinity();
  return 2 * cluster.network.sockets.v / cluster.devices_per_node;
}

GroupLinks group_links(const ClusterSpec& cluster, const std::vector<Rank>& ranks) {
  const std::vector<OnNode> nodes = by_node(cluster, ranks);
  double most = 1, fewest_devices = std::numeric_limits<double>::infinity();
  for (const OnNode& node : nodes) {
    most = std::max(most, node.members);
    fewest_devices = std::min(fewest_devices, node.devices);
  }
  GroupLinks links;
  links.nodes = std::max(1, static_cast<int>(nodes.size()));
  links.per_node = static_cast<int>(most);
  links.ring = links.exchange = cluster.intra_node;
  for (std::size_t i = 0; i < ranks.size() && ranks.size() > 1; ++i) {
    const LinkSpec link = link_between(cluster, ranks[i], ranks[(i + 1) % ranks.size()]);
    if (i == 0 || link.bandwidth < links.next.bandwidth) links.next.bandwidth = link.bandwidth;
    links.next.latency = std::max(links.next.latency, link.latency);
  }
  // Ranks that share a device have its links together.
  links.ring.bandwidth.v *= part_of_links(cluster, links.per_node - 1);
  links.exchange.bandwidth = links.inside = links.ring.bandwidth;
  if (links.nodes == 1) return links;

  const auto n = static_cast<double>(ranks.size());
  const LinkSpec port = device_port(cluster);
  double ring = std::numeric_limits<double>::infinity(), exchange = ring;
  for (const OnNode& node : nodes) {
    const double ports = node.devices * (n - 1) / (n - node.members);
    ring = std::min({ring, port.bandwidth.v * ports, over_sockets(cluster, node) * ports});
    exchange = std::min(exchange, port.bandwidth.v * ports / node.members);
  }
  links.leaves = 0;
  for (int last = -1; const OnNode& node : nodes) {
    const int leaf = leaf_of(cluster, node.node);
    if (leaf != last) ++links.leaves;
    last = leaf;
  }
  links.ports = {std::min(port.bandwidth.v, over_sockets(cluster, nodes.front())) * fewest_devices};
  Seconds latency = port.latency;
  if (links.leaves > 1) {
    const double k = links.nodes, per_leaf = k / links.leaves;
    const double over = cluster.network.oversubscription;
    const double crossing = std::min(1.0, per_leaf / over);
    ring *= crossing;
    links.ports.v *= crossing;
    exchange *= std::min(1.0, (k - 1) / (k - per_leaf) / over);
    latency += (links.leaves / k) * cluster.network.spine_latency;
  }
  const auto link = [&](double bandwidth) {
    const bool bounded = most > 1 && links.inside.v > 0;
    return LinkSpec{{bounded ? std::min(bandwidth, links.inside.v) : bandwidth}, latency};
  };
  links.ring = link(ring);
  links.exchange = link(exchange);
  return links;
}

}  // namespace lockstep
