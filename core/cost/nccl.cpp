#include "core/cost/nccl.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <utility>

#include "core/ir/ring.hpp"

namespace lockstep {
namespace {

using Algorithm = CollectiveAlgorithm;
using Protocol = CollectiveProtocol;

/// A latency in microseconds, by protocol.
struct ByProtocol {
  double ll, ll128, simple;
  Seconds of(Protocol p) const {
    return {(p == Protocol::LL ? ll : p == Protocol::LL128 ? ll128 : simple) * 1e-6};
  }
};

/// A row of NCCL's table of latencies: that of a call, and that of a step over NVLink, over PCIe
/// and over the network between nodes.
struct Latencies {
  ByProtocol call, nvlink, pcie, network;
};
constexpr Latencies kRing = {{6.6, 14.0, 8.4}, {0.6, 1.9, 3.4}, {1.0, 2.5, 5.7}, {2.7, 4.0, 14.0}};
constexpr Latencies kTree = {{6.8, 14.0, 8.4}, {0.6, 1.25, 4.0}, {1.0, 1.9, 4.0}, {5.0, 8.5, 14.0}};
constexpr Seconds kSwitchReduction{25e-6};   // latency of NVLS inside a node
constexpr Seconds kSwitchTreeStep{20.9e-6};  // of a step of the NVLS tree between nodes
/// The least that a step inside a node takes in a ring that spans nodes: the host's post.
constexpr ByProtocol kNetworkPost{1.0, 1.0, 3.0};
/// What an exchange with one more peer takes: NCCL's arity latency.
constexpr Seconds kPeerPost{0.4e-6};
constexpr double kTreePart = 0.92;   // the part of a ring's bandwidth that a tree reaches
constexpr double kLl128Part = 0.92;  // what LL128 leaves of it: 120 of 128 bytes, less a little
/// Groups with fewer members on a node do not use its switch (stas00/ml-engineering, H200).
constexpr int kSwitchMembers = 5;
/// The most that LL reaches in bytes/s, first where a group spans two nodes, then where it spans
/// more. The network's host is the limit; the figures are for Intel's.
constexpr std::array<double, 2> kLlBetweenNodes = {39.0e9, 20.4e9};
constexpr double kChannelBytes = 1 << 20;

/// NCCL's factors on the bandwidth of trees, because "trees are not perfectly sticking to the model
/// for medium sizes". These are its factors at some of its powers of two; between them they are
/// linear in the logarithm.
struct Dip {
  double log2_bytes, ll, ll128, simple;
};
constexpr std::array<Dip, 7> kTreeDip = {{{9, 1.0, 1.0, 0.9},
                                          {12, 0.7, 0.8, 0.9},
                                          {15, 0.7, 0.7, 0.6},
                                          {18, 0.4, 0.6, 0.5},
                                          {21, 0.6, 0.6, 0.6},
                                          {25, 1.0, 0.9, 0.7},
                                          {28, 1.0, 1.0, 0.9}}};

double tree_dip(Bytes bytes, Protocol p) {
  const auto of = [p](const Dip& d) {
    return p == Protocol::LL ? d.ll : p == Protocol::LL128 ? d.ll128 : d.simple;
  };
  const double x = std::log2(std::max(1.0, static_cast<double>(bytes.v)));
  if (x <= kTreeDip.front().log2_bytes) return of(kTreeDip.front());
  if (x >= kTreeDip.back().log2_bytes) return p == Protocol::Simple ? of(kTreeDip.back()) : 1.0;
  const auto above = std::upper_bound(kTreeDip.begin(), kTreeDip.end(), x,
                                      [](double v, const Dip& d) { return v < d.log2_bytes; });
  const Dip& lo = *std::prev(above);
  const double part = (x - lo.log2_bytes) / (above->log2_bytes - lo.log2_bytes);
  return of(lo) + part * (of(*above) - of(lo));
}

/// Collects the ways to carry out one collective of one group, with what each of them takes.
class Choices {
 public:
  Choices(OpKind kind, Bytes full, int size, const GroupLinks& links, const ClusterSpec& cluster)
      : kind_(kind), full_(full), n_(size), links_(links), cluster_(cluster) {}

  std::vector<CollectiveTime> all() {
    if (is_exchange(kind_) || kind_ == OpKind::Rotate) {
      kind_ == OpKind::Rotate ? message() : pairwise();
      return std::move(choices_);
    }
    for (const Protocol p : {Protocol::LL, Protocol::LL128, Protocol::Simple}) {
      // LL128 needs writes of 128 bytes that arrive whole, which PCIe does not promise.
      const bool pcie = cluster_.network.node_link == NodeLink::Pcie;
      if (p == Protocol::LL128 && pcie && links_.per_node > 1) continue;
      ring(p);
      if (kind_ == OpKind::AllReduce) tree(p);
    }
    if (kind_ == OpKind::AllReduce && cluster_.network.in_switch_reduction.v > 0 &&
        links_.per_node >= kSwitchMembers) {
      reduction_in_switches();
    }
    return std::move(choices_);
  }

 private:
  bool spans() const { return links_.nodes > 1; }

  Seconds step_inside(const Latencies& table, Protocol p) const {
    const bool nvlink = cluster_.network.node_link == NodeLink::Nvlink;
    return (nvlink ? table.nvlink : table.pcie).of(p) + cluster_.intra_node.latency;
  }
  /// The latency of a step between nodes: NCCL's, and what the network adds. The latter is the
  /// latency of links_.ring, which includes the spines that a ring over several leaves passes.
  Seconds step_between(const Latencies& table, Protocol p) const {
    return table.network.of(p) + links_.ring.latency;
  }

  /// The most that LL reaches, in bytes/s.
  double low_latency_limit() const {
    if (!spans()) return cluster_.network.low_latency.v;
    return kLlBetweenNodes[links_.nodes == 2 ? 0 : 1];
  }

  /// Adds a way. `steps` is the latency of all its steps together. `bandwidth` is in bytes of the
  /// whole buffer per second; 0 if it is not modelled.
  void add(Algorithm algorithm, Protocol p, Seconds call, Seconds steps, double bandwidth) {
    Seconds data, transfer;
    if (bandwidth > 0) {
      const double bytes = static_cast<double>(full_.v);
      transfer = data = {bytes / bandwidth};
      if (p == Protocol::Simple) {  // the pipeline of chunks fills first
        const double held = kChannelBytes * cluster_.network.channels;
        const double small = held / bytes;  // small messages have smaller chunks
        transfer += {held / (1 + small * small) / bandwidth};
      }
      if (p == Protocol::LL) transfer = {std::sqrt(steps.v * steps.v + data.v * data.v) - steps.v};
    }
    const Seconds latency = cluster_.device.launch_overhead + call + steps;
    choices_.push_back({algorithm, p, {latency, transfer}, latency + data});
  }

  void ring(Protocol p) {
    const double rounds = ring_rounds(kind_);
    const double steps = rounds * (n_ - 1);
    const double between = spans() ? rounds * (links_.nodes - 1) : 0;
    const Seconds floor = spans() ? kNetworkPost.of(p) : Seconds{};
    // With one member on each node nothing hides a step's latency, and NCCL takes the tree's.
    const Latencies& far = links_.per_node == 1 ? kTree : kRing;
    const Seconds latency =
        (steps - between) * std::max(step_inside(kRing, p), floor) + between * step_between(far, p);
    double bus = links_.ring.bandwidth.v;
    if (p == Protocol::LL) bus = std::min(bus / 2, low_latency_limit());
    if (p == Protocol::LL128) bus *= kLl128Part;
    add(Algorithm::Ring, p, kRing.call.of(p), latency,
        kind_ == OpKind::Broadcast ? bus : bus * n_ / steps);
  }

  /// Data go up to the root and down again, so that a member passes the whole buffer on twice. Over
  /// the network there are two trees, each for half of the data, and a node is an inner node of
  /// only one of them. With two nodes each passes the buffer on once.
  void tree(Protocol p) {
    const double levels = std::log2(static_cast<double>(links_.nodes));
    const Seconds latency =
        2 * ((links_.per_node - 1) * step_inside(kTree, p) + levels * step_between(kTree, p));
    double bandwidth = kTreePart * tree_bandwidth(links_.inside.v / 2);
    if (p == Protocol::LL) bandwidth = std::min(bandwidth / 3.8, low_latency_limit() / 2);
    if (p == Protocol::LL128) bandwidth *= spans() ? 120.0 / 128.0 : 7.0 / 9.0;
    add(Algorithm::Tree, p, kTree.call.of(p), latency, bandwidth * tree_dip(full_, p));
  }

  /// The bandwidth of a tree in bytes of the whole buffer per second: the least of what a node and
  /// what the network carries.
  double tree_bandwidth(double inside) const {
    const double network = links_.nodes == 2 ? links_.ports.v : links_.ports.v / 2;
    if (!spans()) return inside;
    return links_.per_node > 1 && inside > 0 ? std::min(inside, network) : network;
  }

  void reduction_in_switches() {
    const double bandwidth = cluster_.network.in_switch_reduction.v;
    if (!spans()) {
      add(Algorithm::Nvls, Protocol::Simple, {}, kSwitchReduction, bandwidth);
      return;
    }
    const double levels = std::log2(static_cast<double>(links_.nodes));
    add(Algorithm::NvlsTree, Protocol::Simple, {},
        kSwitchReduction + (2 * levels) * (kSwitchTreeStep + links_.ring.latency),
        tree_bandwidth(bandwidth));
  }

  void pairwise() {
    const Seconds step =
        spans() ? step_between(kRing, Protocol::Simple) : step_inside(kRing, Protocol::Simple);
    add(Algorithm::Pairwise, Protocol::Simple, kRing.call.of(Protocol::Simple),
        step + (n_ - 1) * kPeerPost, links_.exchange.bandwidth.v * n_ / (n_ - 1));
  }

  /// The latency of the link to the next member has that of NCCL's step.
  void message() {
    add(Algorithm::Pairwise, Protocol::Simple, kRing.call.of(Protocol::Simple), links_.next.latency,
        links_.next.bandwidth.v);
  }

  OpKind kind_;
  Bytes full_;
  double n_;
  const GroupLinks& links_;
  const ClusterSpec& cluster_;
  std::vector<CollectiveTime> choices_;
};

}  // namespace

Seconds nccl_step(NodeLink node_link, bool inside_node) {
  if (!inside_node) return kRing.network.of(Protocol::Simple);
  return (node_link == NodeLink::Nvlink ? kRing.nvlink : kRing.pcie).of(Protocol::Simple);
}

std::vector<CollectiveTime> nccl_choices(OpKind kind, Bytes full, int group_size,
                                         const GroupLinks& links, const ClusterSpec& cluster) {
  return Choices(kind, full, group_size, links, cluster).all();
}

}  // namespace lockstep
