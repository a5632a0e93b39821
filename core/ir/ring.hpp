// Ring: how many bytes a collective moves by a ring algorithm. The cost model and reports take all
// such figures from here.
#pragma once

#include "core/base/units.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// How often a member passes on (n-1)/n of the unsharded size: once in a reduce-scatter or
/// all-gather, and twice in an all-reduce, which is one after the other (Patarasuk and Yuan,
/// Bandwidth optimal all-reduce algorithms, 2009). For a broadcast it is the mean over the members,
/// of which all but the last pass on the whole. A rotation is a single step, in which each passes
/// on all that it has. 0 if `kind` is no collective.
constexpr int ring_rounds(OpKind kind) {
  switch (kind) {
    case OpKind::AllReduce:
      return 2;
    case OpKind::AllGather:
    case OpKind::ReduceScatter:
    case OpKind::AllToAll:
    case OpKind::AllToAllRows:
    case OpKind::AllGatherRows:
    case OpKind::ReduceScatterRows:
    case OpKind::Broadcast:
    case OpKind::Rotate:
      return 1;
    default:
      return 0;
  }
}

/// How much one of `n` members sends in a collective of the unsharded size `full`, S: 2(n-1)/n S in
/// an all-reduce, S in a rotation of buffers of S, (n-1)/n S in the others.
constexpr Bytes ring_bytes(OpKind kind, Bytes full, int n) {
  if (kind == OpKind::Rotate) return {n > 1 ? full.v : 0};
  return {ring_rounds(kind) * (n - 1) * full.v / n};
}

}  // namespace lockstep
