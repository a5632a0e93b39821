// Program: what every rank of one training step does, lowered once and run by every backend.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/ids.hpp"
#include "core/base/index_vector.hpp"
#include "core/base/phase.hpp"
#include "core/ir/input.hpp"
#include "core/ir/kernels/kernel.hpp"

namespace lockstep {

// ---------------------------------------------------------------- mesh and groups

struct MeshDim {
  std::string name;  // "pp", "dp_replicate", "dp_shard", "cp", "tp"
  int size = 1;
  bool operator==(const MeshDim&) const = default;
};

/// Ranks as a grid, outermost dimension first: the last one varies fastest with the rank.
struct Mesh {
  IndexVector<int, MeshDim> dims;
  int world_size() const;
  int index_of(std::string_view name) const;  // -1: no such dimension
  int size_of(std::string_view name) const;   // 1 if there is no such dimension
  int coordinate(Rank rank, int dim) const;
  Rank with_coordinate(Rank rank, int dim, int coordinate) const;
  bool operator==(const Mesh&) const = default;
};

/// Mesh-relative group: a rank's own group holds the ranks that differ from it in `dims` only,
/// in rank order. `only`, if not empty, keeps the ranks whose coordinate along dims[0] is listed
/// (the first and last pipeline stage that share a tied embedding, say).
struct Group {
  std::string name;
  std::vector<int> dims;
  std::vector<int> only;
  bool operator==(const Group&) const = default;
};
std::vector<Rank> members(const Mesh& mesh, const Group& group, Rank rank);
int group_size(const Mesh& mesh, const Group& group);
/// Position of `rank` among members(); -1 if it is outside its own group (see Group::only).
int position(const Mesh& mesh, const Group& group, Rank rank);

// ---------------------------------------------------------------- functions

enum class Access : std::uint8_t { Read, Write, ReadWrite };

/// A formal buffer of a function; the op binds an actual buffer of at least `bytes`.
struct Formal {
  std::string name;
  Access access = Access::Read;
  Bytes bytes;
  bool operator==(const Formal&) const = default;
};

/// A compute segment between communication points: a kernel list over formal buffers.
struct Function {
  std::string name;  // "block.F"
  IndexVector<int, Formal> formals;
  std::vector<Kernel> kernels;
  bool operator==(const Function&) const = default;
};
Work work(const Function& function);

// ---------------------------------------------------------------- buffers

enum class BufferKind : std::uint8_t {
  Param,      // what a rank owns: its shard, or all of it
  ParamFull,  // gathered parameters
  Grad,
  Master,
  Optimizer,
  Activation,  // saved for backward
  Boundary,    // activations and gradients between layers and stages
  Comm,
  Workspace,
  Input,         // tokens, targets
  Metric,        // loss, norm
  ParamVersion,  // parameters as they were before an update, for passes under way
};
inline constexpr int kNumBufferKinds = static_cast<int>(BufferKind::ParamVersion) + 1;
std::string_view to_string(BufferKind kind);

/// A buffer, or a view: a byte range of its parent. Views have no lifetime of their own.
/// `on_host`: in host memory, where the host's own computations (Stream::Host) and copies reach it.
/// A view with `piece_of` is each rank's own piece: member i of that group sees the bytes from
/// offset + i × bytes (ZeRO updates its piece of parameters that it holds whole).
struct Buffer {
  Bytes bytes;
  std::int64_t offset = 0;  // in the rank's arena of its memory; of a view: in its parent
  OpId first, last;         // ops of its lifetime, inclusive; both none: persistent, whole step
  BufferId parent;          // none: not a view
  GroupId piece_of;         // of a view: every member of the group sees another piece
  BufferKind kind = BufferKind::Activation;
  DType dtype = DType::F32;
  bool on_host = false;
  std::int16_t layer = -1;  // index of the layer it belongs to (embedding 0, blocks, head)
  Microbatch microbatch = -1;
  std::int32_t name = -1;  // into Program::names: "x", "saved", "grads"
  bool persistent() const { return !first.valid() && !parent.valid(); }
  bool operator==(const Buffer&) const = default;
};

// ---------------------------------------------------------------- ops

enum class OpKind : std::uint8_t {
  Call,
  AllReduce,      // sum; args: one buffer, in place
  AllGather,      // args: shard (read), full (written)
  ReduceScatter,  // sum; args: full (read), shard (written)
  Broadcast,      // from position 0; args: one buffer
  AllToAll,       // args: source, destination
  Send,           // args: one buffer (read)
  Recv,           // args: one buffer (written)
  HostToDevice,   // args: one buffer (written), target says with what; or one in host memory
                  // (read) and one on the device (written)
  DeviceToHost,   // likewise: one buffer (read); or one on the device (read), one in host memory
};
inline constexpr int kNumOpKinds = static_cast<int>(OpKind::DeviceToHost) + 1;
std::string_view to_string(OpKind kind);
constexpr bool is_collective(OpKind k) { return k >= OpKind::AllReduce && k <= OpKind::AllToAll; }
constexpr bool is_p2p(OpKind k) { return k == OpKind::Send || k == OpKind::Recv; }
constexpr bool is_copy(OpKind k) { return k >= OpKind::HostToDevice; }

/// Ordered queues of a rank: CUDA streams, CPU worker queues and simulator lanes alike. Receiving
/// has streams of its own so that a receive posted early never holds up a send behind it, and the
/// all-reduce between replicas one, so that it runs beside the next unit's reduce-scatter.
enum class Stream : std::uint8_t {
  Compute,
  Tp,
  Gather,
  Reduce,
  Replicate,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Copy,
  CopyBack,  // to the host: both directions of the bus at once
  Host,      // calls that the host computes, on buffers in its memory
};
inline constexpr int kNumStreams = static_cast<int>(Stream::Host) + 1;
std::string_view to_string(Stream stream);

/// Target of a host copy. Tokens, targets and images are the rank's samples (Samples); of tokens
/// and targets those that the table Order lists, less the table Shift. Positions (ids of the rank's
/// own rows), starts (see attention_forward) and columns (how many of the rank's part of the
/// vocabulary stand for tokens, the rest being padding) are the tables of these names. Memory: what
/// the copy's two buffers hold.
enum class HostData : std::int32_t {
  Tokens,
  Targets,
  Images,
  Positions,
  Starts,
  Columns,
  Loss,
  GradNorm,
  Memory
};
inline constexpr int kNumHostData = static_cast<int>(HostData::Memory) + 1;
std::string_view to_string(HostData data);

/// What one rank does next on one stream. An op's id is its index; ops on one stream run in id
/// order, and `after` names ops of lower id on other streams that must have ended.
/// `target`: FunctionId of a call, GroupId of a collective, the peer's coordinate along "pp" of a
/// send or receive, HostData of a copy.
struct Op {
  OpKind kind = OpKind::Call;
  Stream stream = Stream::Compute;
  Phase phase = Phase::None;
  std::uint8_t after_count = 0;
  std::int32_t target = -1;
  std::uint32_t after_begin = 0;  // into Role::after
  std::uint32_t args_begin = 0;   // into Role::args
  std::uint16_t args_count = 0;
  std::int16_t layer = -1;
  std::int16_t stage = -1;
  std::int16_t reserved = 0;
  Microbatch microbatch = -1;
  FunctionId function() const { return {target}; }
  GroupId group() const { return {target}; }
  int peer() const { return target; }
  HostData host() const { return static_cast<HostData>(target); }
  /// A copy between two buffers.
  bool moves_memory() const { return is_copy(kind) && host() == HostData::Memory; }
};
static_assert(sizeof(Op) <= 64);
/// Does not compare where the slices begin, nor what they hold: Role's == does.
bool operator==(const Op& a, const Op& b);

// ---------------------------------------------------------------- parameters

enum class InitKind : std::uint8_t { Zeros, Ones, Normal };

/// A model parameter, known to all ranks by name; initial values are a function of (seed, name,
/// element index) alone, never of the rank.
struct Parameter {
  std::string name;                      // "blocks.3.attn.wqkv"
  IndexVector<int, std::int64_t> shape;  // full, before any sharding
  InitKind init = InitKind::Normal;
  double init_scale = 0.02;  // standard deviation
  int split_dim = -1;        // dimension that units with a split group divide; -1: none
  std::vector<std::int64_t> sections =
      {};  // of that dimension, divided one by one (q, k, v); sum: all
  std::int64_t elements() const;
  bool operator==(const Parameter&) const = default;
};

/// Elements that one of `parts` ranks holds of a split parameter: ceil(section / parts) of every
/// section, one after the other; where a section does not divide, the last ranks have fewer and
/// then padding. With one part, or no split: all.
std::int64_t held_elements(const Parameter& parameter, int parts);

struct UnitParameter {
  ParameterId parameter;
  std::int64_t offset = 0;  // elements of a rank's own, from the start of the unit
  bool operator==(const UnitParameter&) const = default;
};

/// Parameters that are gathered, reduced and updated together (a wrapped module), laid out flat.
/// Split (tensor, expert parallel): member i of `split_group` holds part i of each parameter with a
/// split dimension, as if it were a smaller parameter.
/// Sharded: member i of `shard_group` owns elements [i, i+1) × shard_elements. With `whole_param`
/// it keeps the moments of these only, but the parameters of all members (ZeRO-1 and ZeRO-2).
struct Unit {
  std::string name;
  std::vector<UnitParameter> parameters;
  std::int64_t elements = 0;        // without padding
  std::int64_t shard_elements = 0;  // = elements when not sharded; × group size covers elements
  GroupId split_group;              // none: not split
  GroupId shard_group;              // none: not sharded
  BufferId param;                   // persistent: shard_elements; whole_param: × group size
  BufferId master;                  // persistent: shard_elements, what the optimizer updates and
                                    // `param` is rounded from; none: it updates `param` itself
  BufferId adam_m, adam_v;  // persistent: shard_elements; SGD has its momentum in adam_m alone
  bool whole_param = false;
  bool gathered_late = false;  // whole_param: a step ends with its own piece updated and begins
                               // with an all-gather of the others
  bool tied_copy = false;      // a second copy of a tied parameter: not counted in norms
  /// What the optimizer updates.
  BufferId updated() const { return master.valid() ? master : param; }
  bool operator==(const Unit&) const = default;
};

// ---------------------------------------------------------------- roles and the program

/// What a set of ranks does: same ops, same buffers; peers and groups are relative to the rank.
struct Role {
  std::vector<Rank> ranks;  // ascending
  IndexVector<OpId, Op> ops;
  IndexVector<BufferId, Buffer> buffers;
  std::vector<OpId> after;     // pool
  std::vector<BufferId> args;  // pool
  IndexVector<int, Unit> units;
  Bytes arena;       // peak memory: every buffer lies in [0, arena)
  Bytes host_arena;  // likewise of the buffers in host memory
  std::span<const OpId> after_of(const Op& op) const {
    return {after.data() + op.after_begin, op.after_count};
  }
  std::span<const BufferId> args_of(const Op& op) const {
    return {args.data() + op.args_begin, op.args_count};
  }
  const Buffer& buffer(BufferId id) const { return buffers[id]; }
  const Op& op(OpId id) const { return ops[id]; }
  /// Absolute offset in the arena: parent offsets added up; of a piece, where the first one lies.
  std::int64_t arena_offset(BufferId id) const;
  BufferId root(BufferId id) const;          // the buffer itself, or the last parent of a view
  bool operator==(const Role& other) const;  // slices by content, wherever they lie in the pools
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
  std::int64_t tokens_per_step = 0;        // all ranks; 0: synthetic
  int updates_per_step = 1;  // of the weights; "microbatch" of an update's ops counts them. AdamW's
                             // t is step × this + update + 1, and the loss of the step is the mean
  Flops model_flops_per_step;  // all ranks, without recompute: the numerator of MFU
  DType dtype = DType::F32;
  Seconds p2p_latency{-1};  // given time of a send (synthetic model); negative: none given
  const Role& role_of(Rank rank) const { return roles[role_of_rank[rank]]; }
  const Function& function(FunctionId id) const { return functions[id]; }
  const Group& group(GroupId id) const { return groups[id]; }
  bool operator==(const Program&) const = default;
};

/// Parts that a unit's split parameters are divided into.
int split_parts(const Program& program, const Unit& unit);
std::int64_t held_elements(const Program& program, const Unit& unit, const UnitParameter& part);

/// Where `rank` finds a buffer in its arena: a piece at its own place.
std::int64_t arena_offset(const Program& program, Rank rank, BufferId id);

/// Bytes of the parent that the ranks of a role touch together: of a piece, all pieces; otherwise
/// the buffer itself. Requires a piece's group to exist.
Bytes span_of(const Program& program, const Buffer& buffer);

/// Access of argument `index` of `op`: what the op does to that buffer.
Access access(const Program& program, const Op& op, std::size_t index);

/// Bytes of a collective's unsharded buffer, or of a message or copy; 0 for a call.
Bytes payload_bytes(const Program& program, const Role& role, const Op& op);

/// True if a rank is given data by the host: tokens and targets.
bool reads_host_data(const Program& program);

/// "block.F s0 mb3 L2", "all_reduce dp L5", "send F s0 mb1 -> pp1": for traces and messages.
std::string describe(const Program& program, const Role& role, OpId id);

/// Ranks that stand for all: mesh dimensions along which the role never changes are folded to
/// coordinate 0. members_of(r) = ranks that do exactly what representative r does.
struct Folding {
  std::vector<Rank> representatives;          // ascending
  IndexVector<Rank, Rank> representative_of;  // by rank
};
Folding fold(const Program& program);

}  // namespace lockstep
