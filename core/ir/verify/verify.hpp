// verify: a hang, a race, a use after free or a result that means nothing is an error before the
// run, not during it.
#pragma once

#include <string_view>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// What verify() leaves unproven.
struct Unproven {
  /// That ops of phase S bring replicas that train apart together: whatever they do to weights,
  /// such as averaging them in pairs, a step begins with. That they cannot hang or race is proven.
  bool replicas = false;
};
inline constexpr std::string_view kReplicasUnproven =
    "that ops of phase S leave the same weights on all replicas, and that these mean anything";

/// Returns the faults that it finds, at most 64. If there is none, the program is safe to run on
/// any backend. It proves that
///  - indices are in range, every rank has one role, ops bind buffers large enough for the formals;
///  - `after` points to lower ids, so the program has no cycle inside a rank;
///  - members of a group issue the same collectives (kind, bytes, dtype) in one order, no member is
///    missing and no op runs on a rank outside its group;
///  - every send has one receive of its stage, microbatch, bytes and dtype, and the messages of a
///    channel keep one order;
///  - running the streams in order with blocking sends, receives and collectives never gets stuck,
///    and issuing all collectives of a rank in list order never does either (NCCL's total order);
///  - each buffer is written before it is read and not used outside its lifetime, every read
///    happens after the write that it needs (streams and `after`), and buffers that overlap in the
///    arena are never alive together;
///  - every parameter of a unit with optimizer state has its gradient computed before its update;
///  - ranks of a data-parallel group run equally many microbatches;
///  - every value is what its reader takes it for, on all ranks together: functions are the model
///    library's or declared as the user's own; layers read their own parameters, microbatch and
///    neighbours; partial sums are taken exactly once, splits are gathered before they are read
///    whole; gradients, losses and norms have every term once (docs/verify.md).
/// Messages name ranks and ops.
std::vector<Error> verify(const Program& program, Unproven unproven = {});

}  // namespace lockstep
