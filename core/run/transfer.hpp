// Transfer: what the members of a collective, or the two ends of a message, must agree on before
// any data moves; shared by the communicators of all real backends.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// What one member brings to a transfer. Its owner leaves the buffers alone until it has ended.
struct Party {
  Rank rank = 0;
  OpId op;
  OpKind kind = OpKind::AllReduce;
  DType dtype = DType::F32;
  std::int64_t bytes = 0;             // unsharded size of a collective, size of a message
  const std::byte* source = nullptr;  // what the member gives
  std::byte* target = nullptr;        // where it wants the result
};

/// What `rank` brings to `op` in a group of `size`; `args` and `bytes` as in Communicator::enqueue.
/// Error Internal if the shards of a gather or scatter do not add up to its full buffer.
Result<Party> make_party(Rank rank, OpId id, const Op& op, std::span<std::byte* const> args,
                         std::span<const std::int64_t> bytes, DType dtype, int size);

/// Error Internal if the parties do not all mean the same transfer.
Result<void> check_agreement(const std::vector<Party>& parties);

/// Who meets in `op`: the group's members, or sender and receiver of a message, which is one of a
/// lane of its own when it goes against the pipeline. No members: not a transfer, or the rank is
/// outside the group.
struct Route {
  std::vector<Rank> members;
  int position = -1;  // of the rank among the members
  bool backward = false;
};
Route route_of(const Program& program, Rank rank, const Op& op);

/// The error of an op without members.
Error no_route(Rank rank, OpId id, const Op& op);

}  // namespace lockstep
