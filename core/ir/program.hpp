// Program: what every rank of one training step does, lowered once and run by every backend.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/units.hpp"
#include "core/ir/buffer.hpp"
#include "core/ir/function.hpp"
#include "core/ir/input.hpp"
#include "core/ir/mesh.hpp"
#include "core/ir/op.hpp"
#include "core/ir/unit.hpp"

namespace lockstep {

/// What a set of ranks does. They have the same ops and buffers; peers and groups are relative to
/// the rank.
struct Role {
  std::vector<Rank> ranks;  // ascending
  IndexVector<OpId, Op> ops;
  IndexVector<BufferId, Buffer> buffers;
  std::vector<OpId> after;         // the lists of all ops, one after the other (after_of)
  std::vector<BufferId> args;      // likewise (args_of)
  std::vector<ExpectedRows> rows;  // which differ: few do (rows_of)
  IndexVector<int, Unit> units;
  Bytes arena;        // peak memory: every buffer on the device lies in [0, arena)
  Bytes host_arena;   // likewise for the buffers in host memory
  Bytes drive_arena;  // and for those on the drive; whole blocks of kDriveBlock
  Bytes arena_of(Tier tier) const {
    return tier == Tier::Device ? arena : tier == Tier::Host ? host_arena : drive_arena;
  }
  std::span<const OpId> after_of(const Op& op) const {
    return {after.data() + op.after_begin, op.after_count};
  }
  std::span<const BufferId> args_of(const Op& op) const {
    return {args.data() + op.args_begin, op.args_count};
  }
  ExpectedRows rows_of(const Op& op) const {
    return op.rows < 0 ? ExpectedRows{} : rows[to_size(op.rows)];
  }
  /// Says how many rows an op is expected to move. False if too many other numbers are known.
  [[nodiscard]] bool expect_rows(Op& op, ExpectedRows expected);
  const Buffer& buffer(BufferId id) const { return buffers[id]; }
  const Op& op(OpId id) const { return ops[id]; }
  /// The absolute offset in the arena of its tier, with the offsets of parents added; for a piece,
  /// that of the first member's.
  std::int64_t arena_offset(BufferId id) const;
  BufferId root(BufferId id) const;          // the buffer itself, or the last parent of a view
  bool operator==(const Role& other) const;  // compares lists by content, wherever they lie
};

struct Program {
  Mesh mesh;
  Training training;
  Input input;
  IndexVector<GroupId, Group> groups;
  IndexVector<FunctionId, Function> functions;
  IndexVector<ParameterId, Parameter> parameters;
  IndexVector<std::int32_t, std::string> names;
  IndexVector<RoleId, Role> roles;
  IndexVector<Rank, RoleId> role_of_rank;  // world_size entries
  std::int64_t tokens_per_step = 0;        // of all ranks; 0 for the synthetic model
  /// Updates of the weights in a step. The microbatch of an update's ops is the number of the
  /// update. AdamW's t is step × updates_per_step + update + 1, and the loss of the step is the
  /// mean.
  int updates_per_step = 1;
  /// If not 0, the ranks along "dp_replicate" are replicas that train apart, each with a loss of
  /// its own samples (local SGD, DiLoCo). Ops of phase S, which come last in every role, bring them
  /// together: they run in every sync_every-th step alone, that is after steps sync_every - 1,
  /// 2 sync_every - 1, … (0-based). Losses and gradient norms of the step are means over replicas.
  int sync_every = 0;
  Flops model_flops_per_step;  // of all ranks, without recompute; the numerator of MFU
  DType dtype = DType::F32;
  std::uint64_t emitted = 0;  // model_fingerprint() when the library made it; 0: the user's own
  Seconds p2p_latency{-1};    // given time of a send (synthetic model); negative if none is given
  const Role& role_of(Rank rank) const { return roles[role_of_rank[rank]]; }
  const Function& function(FunctionId id) const { return functions[id]; }
  const Group& group(GroupId id) const { return groups[id]; }
  /// The mesh dimension of replicas that train apart; -1 if there are none, or one alone.
  int replica_dim() const;
  /// How many they are; 1 if there are none.
  int replicas() const { return replica_dim() < 0 ? 1 : mesh.dims[replica_dim()].size; }
  /// Whether a step (0-based) ends with the ops of phase S.
  bool synchronizes(int step) const { return sync_every > 0 && (step + 1) % sync_every == 0; }
  bool operator==(const Program&) const = default;
};

/// The first op of phase S; past the last op if there is none.
OpId first_synchronization(const Role& role);
/// The program of a step that does not synchronize replicas: the ops of phase S are left out.
Program without_synchronization(const Program& program);

/// A hash of the parameters, of where they lie in their units, and of what ranks read; never 0.
std::uint64_t model_fingerprint(const Program& program);

/// Into how many parts a unit's split parameters are divided.
int split_parts(const Program& program, const Unit& unit);
std::int64_t held_elements(const Program& program, const Unit& unit, const UnitParameter& part);

/// Where the right factor of parameter `index` of a unit begins in its sketch, in elements;
/// beyond the last one, how many there are.
std::int64_t sketch_offset(const Program& program, const Unit& unit, std::size_t index);

/// Where a buffer of `rank` lies in its arena; a piece lies at the rank's own place.
std::int64_t arena_offset(const Program& program, Rank rank, BufferId id);

/// How many bytes of the parent the ranks of a role touch together: those of all pieces if the
/// buffer is a piece, otherwise its own. Requires that the group of a piece exists.
Bytes span_of(const Program& program, const Buffer& buffer);

/// What `op` does to its argument `index`.
Access access(const Program& program, const Op& op, std::size_t index);

/// The bytes of a collective's unsharded buffer, or of a message or copy; 0 for a call. Of rows
/// that are counted as the program runs it is those that are expected.
Bytes payload_bytes(const Program& program, const Role& role, const Op& op);

/// Whether the host gives data to a rank, such as tokens and targets.
bool reads_host_data(const Program& program);

/// An op in words, for traces and messages: "block.F s0 mb3 L2", "all_reduce dp L5", "send F s0 mb1
/// -> pp1".
std::string describe(const Program& program, const Role& role, OpId id);

/// Representatives that stand for all ranks: mesh dimensions along which ranks do the same are
/// folded to coordinate 0.
struct Folding {
  std::vector<Rank> representatives;          // ascending
  IndexVector<Rank, Rank> representative_of;  // by rank
};
Folding fold(const Program& program);

}  // namespace lockstep
