// Transfer: what the members of a collective, or the two ends of a message, must agree on before
// any data moves. The communicators of all backends that compute use it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// What one member brings to a transfer. The member leaves the buffers alone until the transfer has
/// ended.
struct Party {
  Rank rank = 0;
  OpId op;
  OpKind kind = OpKind::AllReduce;
  DType dtype = DType::F32;
  std::int64_t bytes = 0;             // size of a message, or of a collective's unsharded buffer
  const std::byte* source = nullptr;  // what the member gives
  std::byte* target = nullptr;        // where it wants the result
  bool largest = false;               // Op::largest
  int root = 0;                       // position of the member that sends a broadcast or message
  // Of a transfer of counted rows, whose `bytes` are those of one row:
  std::int64_t given = 0, room = 0;     // rows that fit into source and target
  std::int64_t expected = 0;            // ExpectedRows::count
  const std::int32_t* goes = nullptr;   // by part: rows that go there, `parts` for each member
  const std::int32_t* comes = nullptr;  // likewise: rows that come from there
  std::int64_t parts = 0;
  std::int64_t members = 0;
  /// In a gather or scatter, where both are the counts of all members: the rows for which each of
  /// these has places.
  std::int64_t places() const { return std::min(given, room); }
};

/// How many rows each of `members` gets (or gives) of those that `counts` lists, `parts` numbers
/// for each member.
std::vector<std::int64_t> rows_of_members(const std::int32_t* counts, std::int64_t parts,
                                          std::size_t members);

/// Of a gather or scatter: how many rows each member has. Those for which it has no places, which
/// check_room() has refused where they came from, are not counted.
std::vector<std::int64_t> rows_in_places(const Party& party, const std::int32_t* counts);

/// Error InvalidSpec, which says what to set, if more rows come to a member than it has places for.
Result<void> check_room(const Party& party, std::span<const std::int64_t> rows);

/// What `rank` brings to `op` in a group of `size` ranks; `args` and `bytes` are those of
/// Communicator::enqueue. Error Internal if the two buffers of the op do not fit the group: the
/// shards of a gather or scatter must add up to the full buffer, those of an all-to-all be equal,
/// and counts of rows be as many for each member.
Result<Party> make_party(const Program& program, Rank rank, OpId op,
                         std::span<std::byte* const> args, std::span<const std::int64_t> bytes,
                         DType dtype, int size);

/// Error Internal if the parties do not all mean the same transfer.
Result<void> check_agreement(const std::vector<Party>& parties);

/// Who meets in a transfer: the members of the group, or the sender and the receiver of a message.
/// A message of the backward pass is marked, because the two directions are matched separately.
struct Route {
  std::vector<Rank> members;
  int position = -1;  // of the asking rank among the members
  bool backward = false;
};
/// The route of `op` on `rank`. It has no members if the op is no transfer, or if the rank is not
/// in the group.
Route route_of(const Program& program, Rank rank, const Op& op);

/// The error to report for a transfer whose route has no members.
Error no_route(Rank rank, OpId id, const Op& op);

}  // namespace lockstep
