// Ring algorithms: how many bytes a collective moves. Every figure of it, in the cost model and in
// reports, comes from here.
#pragma once

#include "core/base/units.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// How often a member passes (n-1)/n of the unsharded size on: a reduce-scatter once, an all-gather
/// once, an all-reduce as one after the other (Patarasuk and Yuan, Bandwidth optimal all-reduce
/// algorithms, 2009). Broadcast: the mean over the members, all but the last of which pass the
/// whole on. 0: no collective.
constexpr int ring_rounds(OpKind kind) {
  switch (kind) {
    case OpKind::AllReduce:
      return 2;
    case OpKind::AllGather:
    case OpKind::ReduceScatter:
    case OpKind::AllToAll:
    case OpKind::Broadcast:
      return 1;
    default:
      return 0;
  }
}

/// What one of `n` members sends in a collective of the unsharded size `full`: 2(n-1)/n S of an
/// all-reduce, (n-1)/n S of the others.
constexpr Bytes ring_bytes(OpKind kind, Bytes full, int n) {
  return {ring_rounds(kind) * (n - 1) * full.v / n};
}

}  // namespace lockstep
