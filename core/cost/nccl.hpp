// NCCL: how long it says that each of its algorithms and protocols takes; docs/cost-model.md.
#pragma once

#include <vector>

#include "core/cost/collective.hpp"

namespace lockstep {

/// What a message waits before its first byte: a step of protocol Simple over the link.
Seconds nccl_step(NodeLink node_link, bool inside_node);

/// NCCL's model (NVIDIA/nccl, src/graph/tuning.cc, of 2026): a latency per call, steps times the
/// latency of a step, bytes over a bandwidth that depends on algorithm and protocol. Its bandwidths
/// are the graph's nominal ones; here they are those that the cluster's links reach. With Simple,
/// what the pipeline of chunks holds comes in addition, V/(1 + (V/S)²) bytes with V = channels · 1
/// MiB (fitted to 8 A100 and H200, stas00/ml-engineering). With LL, whose flags travel with the
/// data, a step's latency hides bytes: the root of the sum of squares of the two. Requires at least
/// two members.
std::vector<CollectiveTime> nccl_choices(OpKind kind, Bytes full, int group_size,
                                         const GroupLinks& links, const ClusterSpec& cluster);

}  // namespace lockstep
