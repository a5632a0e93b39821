// NCCL: how long it expects each of its algorithms and protocols to take; docs/cost-model.md.
#pragma once

#include <vector>

#include "core/cost/collective.hpp"

namespace lockstep {

/// How long a message waits before its first byte: the latency of a step of protocol Simple over
/// the link.
Seconds nccl_step(NodeLink node_link, bool inside_node);

/// Every way in which NCCL may carry out a collective, by NCCL's model (NVIDIA/nccl,
/// src/graph/tuning.cc, of 2026). The time is a latency per call, the steps times the latency of a
/// step, and the bytes over a bandwidth that depends on algorithm and protocol. NCCL's bandwidths
/// are the nominal ones of its graph; here they are those that the cluster's links reach.
///
/// With Simple the pipeline of chunks must fill first, which takes V/(1 + (V/S)²) bytes more, with
/// V = channels · 1 MiB (fitted to 8 A100 and H200, stas00/ml-engineering). With LL the flags
/// travel with the data, so that the latency of steps hides bytes: the two together take the root
/// of the sum of their squares. Requires at least two members.
std::vector<CollectiveTime> nccl_choices(OpKind kind, Bytes full, int group_size,
                                         const GroupLinks& links, const ClusterSpec& cluster);

}  // namespace lockstep
