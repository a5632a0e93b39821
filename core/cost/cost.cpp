#include "core/cost/cost.hpp"

#include <algorithm>
#include <limits>

#include "core/ir/ring.hpp"

namespace lockstep {
namespace {

Seconds transfer_time(Bytes bytes, BytesPerSecond bandwidth) {
  return bandwidth.v > 0 ? bytes / bandwidth : Seconds{};
}

int node_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_node());
}
int device_of(const ClusterSpec& cluster, Rank rank) {
  return rank / std::max(1, cluster.ranks_per_device);
}

}  // namespace

TransferTime collective_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link) {
  if (group_size <= 1) return {};
  const double steps = group_size - 1;
  const Seconds all = transfer_time(full, link.bandwidth);
  const Seconds ring = (steps / group_size) * all;
  const double rounds = ring_rounds(kind);
  if (rounds == 0) return {};
  // A broadcast passes the whole on in pieces: all members but the last send at once.
  return {(rounds * steps) * link.latency, kind == OpKind::Broadcast ? all : rounds * ring};
}

TransferTime p2p_time(Bytes bytes, const LinkSpec& link) {
  return {link.latency, transfer_time(bytes, link.bandwidth)};
}

LinkSpec link_between(const ClusterSpec& cluster, Rank a, Rank b) {
  return node_of(cluster, a) == node_of(cluster, b) ? cluster.intra_node : cluster.inter_node;
}

GroupLinks group_links(const ClusterSpec& cluster, const std::vector<Rank>& ranks) {
  const auto n = static_cast<double>(ranks.size());
  const double port = cluster.inter_node.bandwidth.v;
  double ring = std::numeric_limits<double>::infinity(), exchange = ring;
  bool inside = false;
  for (std::size_t first = 0, last = 0; first < ranks.size(); first = last) {  // by node
    double devices = 0;
    int device = -1;
    while (last < ranks.size() && node_of(cluster, ranks[last]) == node_of(cluster, ranks[first])) {
      if (device_of(cluster, ranks[last]) != device) ++devices;
      device = device_of(cluster, ranks[last++]);
    }
    const auto members = static_cast<double>(last - first);
    if (members == n) return {cluster.intra_node, cluster.intra_node};
    const double ports = devices * (n - 1) / (n - members);
    ring = std::min(ring, port * ports);
    exchange = std::min(exchange, port * ports / members);
    inside |= members > 1;
  }
  if (ranks.empty()) return {cluster.intra_node, cluster.intra_node};
  const auto link = [&](double bandwidth) {
    const double intra = cluster.intra_node.bandwidth.v;
    const bool bounded = inside && intra > 0;
    return LinkSpec{{bounded ? std::min(bandwidth, intra) : bandwidth}, cluster.inter_node.latency};
  };
  return {link(ring), link(exchange)};
}

}  // namespace lockstep
