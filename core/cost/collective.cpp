#include "core/cost/collective.hpp"

#include <algorithm>

#include "core/cost/nccl.hpp"
#include "core/ir/ring.hpp"

namespace lockstep {

std::string_view to_string(CollectiveAlgorithm algorithm) {
  switch (algorithm) {
    case CollectiveAlgorithm::Ring:
      return "ring";
    case CollectiveAlgorithm::Tree:
      return "tree";
    case CollectiveAlgorithm::Nvls:
      return "NVLS";
    case CollectiveAlgorithm::NvlsTree:
      return "NVLS tree";
    case CollectiveAlgorithm::Pairwise:
      return "pairwise";
  }
  return "";
}

std::string_view to_string(CollectiveProtocol protocol) {
  switch (protocol) {
    case CollectiveProtocol::Plain:
      return "plain";
    case CollectiveProtocol::LL:
      return "LL";
    case CollectiveProtocol::LL128:
      return "LL128";
    case CollectiveProtocol::Simple:
      return "Simple";
  }
  return "";
}

TransferTime ring_time(OpKind kind, Bytes full, int group_size, const LinkSpec& link) {
  const double rounds = ring_rounds(kind);
  if (group_size <= 1 || rounds == 0) return {};
  if (kind == OpKind::Rotate) return p2p_time(full, link);
  const double steps = group_size - 1;
  const Seconds all = link.bandwidth.v > 0 ? full / link.bandwidth : Seconds{};
  const Seconds ring = (steps / group_size) * all;
  // A broadcast passes the whole on in pieces, so that all members but the last send at once.
  return {(rounds * steps) * link.latency, kind == OpKind::Broadcast ? all : rounds * ring};
}

std::vector<CollectiveTime> collective_choices(OpKind kind, Bytes full, int group_size,
                                               const GroupLinks& links,
                                               const ClusterSpec& cluster) {
  if (cluster.network.library == CollectiveLibrary::Nccl && group_size > 1 &&
      ring_rounds(kind) > 0) {
    return nccl_choices(kind, full, group_size, links, cluster);
  }
  const bool pairwise = is_exchange(kind) || kind == OpKind::Rotate;
  const auto algorithm = pairwise ? CollectiveAlgorithm::Pairwise : CollectiveAlgorithm::Ring;
  const TransferTime time = ring_time(kind, full, group_size, links.of(kind));
  return {{algorithm, CollectiveProtocol::Plain, time, time.total()}};
}

CollectiveTime collective_time(OpKind kind, Bytes full, int group_size, const GroupLinks& links,
                               const ClusterSpec& cluster,
                               std::optional<CollectiveAlgorithm> only) {
  std::vector<CollectiveTime> choices = collective_choices(kind, full, group_size, links, cluster);
  const auto other = [&](const CollectiveTime& c) { return only && c.algorithm != *only; };
  if (!std::all_of(choices.begin(), choices.end(), other)) {
    choices.erase(std::remove_if(choices.begin(), choices.end(), other), choices.end());
  }
  return *std::min_element(choices.begin(), choices.end(),
                           [](const auto& a, const auto& b) { return a.estimate < b.estimate; });
}

}  // namespace lockstep
