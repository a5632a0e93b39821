// Program: what every rank of one training step does, lowered once and run by every backend.
#pragma once

#include <array>
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
  std::string name;  // "pp", "dp_replicate", "dp_shard", "dp_reshard", "ep", "cp", "cp_heads", "tp"
                     // "etp" or "kv_replicate"
  int size = 1;
  bool operator==(const MeshDim&) const = default;
};

/// Ranks as a grid, outermost dimension first: the last one varies fastest with the rank.
struct Mesh {
  IndexVector<int, MeshDim> dims;
  int world_size() const;
  int index_of(std::string_view name) const;  // -1 if there is no such dimension
  int size_of(std::string_view name) const;   // 1 if there is no such dimension
  int coordinate(Rank rank, int dim) const;
  Rank with_coordinate(Rank rank, int dim, int coordinate) const;
  bool operator==(const Mesh&) const = default;
};

/// The dimensions of tensor parallelism, outermost first: its ranks, or groups of them that divide
/// each expert ("etp") or hold the same key and value heads.
inline constexpr std::array<std::string_view, 3> kTensorDims = {"tp", "etp", "kv_replicate"};
/// How many ranks of tensor parallelism there are, and the dimensions along which they differ.
int tensor_ranks(const Mesh& mesh);
std::vector<int> tensor_dims(const Mesh& mesh);

/// A group, relative to a rank's place in the mesh: a rank's own group holds the ranks that differ
/// from it in `dims` only, in rank order. If `only` is not empty, the group keeps only ranks whose
/// coordinate along dims[0] is listed, such as the first and last pipeline stage, which share a
/// tied embedding.
struct Group {
  std::string name;
  std::vector<int> dims;
  std::vector<int> only;
  bool operator==(const Group&) const = default;
};
std::vector<Rank> members(const Mesh& mesh, const Group& group, Rank rank);
int group_size(const Mesh& mesh, const Group& group);
/// The position of `rank` among members(); -1 if it is outside its own group (see Group::only).
int position(const Mesh& mesh, const Group& group, Rank rank);
/// members().front() of a rank that is inside its own group.
Rank first_member(const Mesh& mesh, const Group& group, Rank rank);

// ---------------------------------------------------------------- functions

enum class Access : std::uint8_t { Read, Write, ReadWrite };

/// A formal buffer of a function; the op binds an actual buffer of at least `bytes`.
struct Formal {
  std::string name;
  Access access = Access::Read;
  Bytes bytes;
  bool operator==(const Formal&) const = default;
};

enum class OpKind : std::uint8_t;

/// A collective inside a layer: tensor `in` becomes tensor `out` over the ranks along `axis` ("dp":
/// all data-parallel ones). In place where both are the same.
struct Exchange {
  OpKind kind;
  std::string axis, in, out;  // tensors by the names of the formals that hold them
  bool operator==(const Exchange&) const = default;
};

/// The compute between two points of communication, as a list of kernels over formal buffers.
struct Function {
  std::string name;  // "block.F"
  IndexVector<int, Formal> formals;
  std::vector<Kernel> kernels;
  /// Communications that follow it. Those that begin a part of a layer stand with its first.
  std::vector<Exchange> exchanges = {};
  std::uint64_t emitted = 0;  // fingerprint() when the library made it; 0: the user's own
  bool operator==(const Function&) const = default;
};
Work work(const Function& function);
/// A hash of all that a function does, its name included; never 0.
std::uint64_t fingerprint(const Function& function);

// ---------------------------------------------------------------- buffers

enum class BufferKind : std::uint8_t {
  Param,      // the parameters that a rank owns: a shard of them, or all
  ParamFull,  // gathered parameters
  Grad,
  Master,
  Optimizer,
  Activation,  // saved for backward
  Boundary,    // activations and gradients between layers and stages
  Comm,
  Workspace,
  Input,         // tokens and targets
  Metric,        // loss and norm
  ParamVersion,  // parameters as they were before an update, for microbatches in flight
  Outer,         // states of the outer optimizer, which replicas that train apart share
};
inline constexpr int kNumBufferKinds = static_cast<int>(BufferKind::Outer) + 1;
std::string_view to_string(BufferKind kind);

/// Where a buffer lies. Each tier of a rank is an arena of its own, larger and slower than the one
/// before it. The host's own computations (Stream::Host) reach its memory only; copies lead from
/// one tier to the next.
enum class Tier : std::uint8_t {
  Device,
  Host,
  Drive,  // a file (ZeRO-Infinity, Rajbhandari et al. 2021); only copies reach it
};
inline constexpr int kNumTiers = static_cast<int>(Tier::Drive) + 1;
std::string_view to_string(Tier tier);
/// Of offsets and sizes of what lies on a drive, and of buffers in host memory beside it: direct
/// I/O moves whole blocks of so many bytes.
inline constexpr std::int64_t kDriveBlock = 4096;

/// The most names that a program may have. There are millions of buffers and ops, so that their
/// fields have as few bits as they need; what does not fit is refused where programs come from.
inline constexpr std::size_t kMostNames = 1 << 15;

/// A buffer, or a view, which is a byte range of its parent. Views have no lifetime of their own.
class Buffer {
 public:
  Bytes bytes;
  std::int64_t offset = 0;  // in the arena of its tier; that of a view is in its parent
  BufferKind kind : 4 = BufferKind::Activation;
  DType dtype : 4 = DType::F32;
  Tier tier : 4 = Tier::Device;
  Microbatch microbatch : kMicrobatchBits = -1;
  std::int16_t layer = -1;  // index of the layer it belongs to (embedding 0, blocks, head)
  std::int16_t name = -1;   // into Program::names: "x", "saved", "grads"

  bool is_view() const { return begin_ < -1; }
  bool persistent() const { return begin_ == -1; }
  /// The ops of its lifetime, inclusive. Both are invalid if it is persistent or a view.
  OpId first() const { return is_view() ? OpId{} : OpId{begin_}; }
  OpId last() const { return is_view() ? OpId{} : OpId{end_}; }
  /// Requires that it is no view.
  void set_lifetime(OpId first, OpId last) {
    begin_ = first.v;
    end_ = last.v;
  }
  /// Invalid unless it is a view.
  BufferId parent() const { return is_view() ? BufferId{-2 - begin_} : BufferId{}; }
  /// Valid if it is a piece: member i of that group sees the bytes of the parent from offset + i ×
  /// bytes on. ZeRO updates its piece of parameters that it holds whole.
  GroupId piece_of() const { return is_view() ? GroupId{end_} : GroupId{}; }
  /// Makes it a view; without a parent, a buffer of its own that has no lifetime.
  void set_view(BufferId parent, GroupId piece_of = {}) {
    begin_ = parent.valid() ? -2 - parent.v : -1;
    end_ = parent.valid() ? piece_of.v : -1;
  }
  bool operator==(const Buffer&) const = default;

 private:
  // The first and the last op of its lifetime. Of a view, its parent's number below -2, and the
  // group of which it is a piece.
  std::int32_t begin_ = -1, end_ = -1;
};
static_assert(sizeof(Buffer) == 32 && kNumBufferKinds <= 16 && kNumTiers <= 16);

// ---------------------------------------------------------------- ops

enum class OpKind : std::uint8_t {
  Call,
  AllReduce,      // sum, or largest (Op::largest); args: one buffer, in place
  AllGather,      // args: shard (read), full (written)
  ReduceScatter,  // sum; args: full (read), shard (written)
  Broadcast,      // from the member at position Op::root; args: one buffer
  AllToAll,       // args: source, destination
  AllToAllRows,   // of as many rows as counts say. Args: source (read), destination (written), how
                  // many rows go to each member's parts (read), how many come from them (read)
  AllGatherRows,  // of as many rows of each member as counts say. Args: source (read), with the
                  // rows at its begin; destination (written), with room for a source of each
                  // member; how many rows the parts of each member have (read), the same numbers on
                  // all
  ReduceScatterRows,  // the reverse: args: a place like that destination (read), sums of the rows
                      // of one's own (written), the same counts (read)
  Rotate,        // args: source (read), destination (written), which gets the source of the member
                 // before; the first member comes after the last
  Send,          // args: one buffer (read)
  Recv,          // args: one buffer (written)
  HostToDevice,  // args: one buffer (written), with what `target` says; or one in host memory
                 // (read) and one on the device (written)
  DeviceToHost,  // args: one buffer (read); or one on the device (read) and one in host memory
                 // (written)
  DriveToHost,   // args: one buffer on the drive (read), one in host memory (written)
  HostToDrive,   // args: one buffer in host memory (read), one on the drive (written)
};
inline constexpr int kNumOpKinds = static_cast<int>(OpKind::HostToDrive) + 1;
std::string_view to_string(OpKind kind);
constexpr bool is_collective(OpKind k) { return k >= OpKind::AllReduce && k <= OpKind::Rotate; }
/// Whether counts say, as the program runs, how many rows are moved.
constexpr bool is_counted(OpKind k) {
  return k == OpKind::AllToAllRows || k == OpKind::AllGatherRows || k == OpKind::ReduceScatterRows;
}
/// Whether every member sends each of the others another part of its data.
constexpr bool is_exchange(OpKind k) { return k == OpKind::AllToAll || k == OpKind::AllToAllRows; }
constexpr bool is_p2p(OpKind k) { return k == OpKind::Send || k == OpKind::Recv; }
constexpr bool is_copy(OpKind k) { return k >= OpKind::HostToDevice; }
constexpr bool is_drive_copy(OpKind k) { return k >= OpKind::DriveToHost; }
/// The tiers between which a copy of two buffers leads.
struct CopyPath {
  Tier from = Tier::Device, to = Tier::Device;
};
constexpr CopyPath path_of(OpKind copy) {
  switch (copy) {
    case OpKind::HostToDevice:
      return {Tier::Host, Tier::Device};
    case OpKind::DeviceToHost:
      return {Tier::Device, Tier::Host};
    case OpKind::DriveToHost:
      return {Tier::Drive, Tier::Host};
    default:
      return {Tier::Host, Tier::Drive};
  }
}

/// The ordered queues of a rank, on every backend: CUDA streams, queues of CPU threads, lanes of
/// the simulator. Receives have streams of their own, so that a receive that is posted early never
/// holds up a send behind it. The all-reduce between replicas has one, so that it runs beside the
/// next unit's reduce-scatter.
enum class Stream : std::uint8_t {
  Compute,
  Layer,  // collectives inside a layer: over "tp", "cp" or "ep"
  Gather,
  Reduce,
  Replicate,
  SendForward,
  RecvForward,
  SendBackward,
  RecvBackward,
  Copy,
  CopyBack,    // copies to the host, so that both directions of the bus are used at once
  Host,        // calls that the host computes on buffers in its memory
  Stages,      // collectives of pipeline ranks that divide a layer: some are posted early and wait
  DriveRead,   // copies from the drive to host memory
  DriveWrite,  // and back, so that what is next is read while what was computed last is written
};
inline constexpr int kNumStreams = static_cast<int>(Stream::DriveWrite) + 1;
std::string_view to_string(Stream stream);

/// The target of a host copy: what it brings.
/// - Tokens, targets and images are those of the rank's samples (Samples). Of tokens and targets,
///   it is those that the table Order lists, less the table Shift.
/// - Documents are the positions at which the documents of the tokens begin that the rank attends
///   with (table Queries); DocumentSpans are these, then the positions at which they end, which the
///   tokens behind them have; DocumentPositions counts the rank's own tokens from there.
/// - DropoutKeys are the keys of the rows that the rank holds between layers
///   (core/base/dropout.hpp): of the tokens that Order lists, from the rows that Rows says on.
///   AllDropoutKeys are those of all rows of the tokens that Order lists, which ranks that share
///   them gather.
/// - AttentionDropout is what the dropout of attention's probabilities draws from: the numbers of
///   the heads that the rank attends with (table Heads), then the keys of these tokens (Queries).
/// - Positions (the ids of the rank's own rows), starts (see attention_forward), columns (how
///   many of the columns of the rank's part of the vocabulary stand for tokens; the others are
///   padding) and shards (0, 1, 2, …, of which a rank's own piece is its position in a group that
///   divides units) come from the tables of these names. So does part: which part of the columns a
///   rank holds where ranks divide these evenly (table Parts).
/// - LossScale is the factor of this step, one float32 (Training::loss_scaling).
/// - Memory stands for a copy between two buffers.
enum class HostData : std::int32_t {
  Tokens,
  Targets,
  Images,
  Documents,
  DocumentSpans,
  DocumentPositions,
  DropoutKeys,
  AllDropoutKeys,
  AttentionDropout,
  Positions,
  Starts,
  Columns,
  Part,
  Shards,
  LossScale,
  Loss,
  GradNorm,
  Memory
};
/// Whether every microbatch has its own.
constexpr bool is_batch(HostData data) { return data <= HostData::AttentionDropout; }
inline constexpr int kNumHostData = static_cast<int>(HostData::Memory) + 1;
std::string_view to_string(HostData data);

/// What a rank does next on one stream. The id of an op is its index. Ops on one stream run in the
/// order of their ids; `after` names ops of lower id on other streams that must have ended.
/// `target` is the FunctionId of a call, the GroupId of a collective, the peer's coordinate along
/// "pp" of a send or receive, or the HostData of a copy.
struct Op {
  OpKind kind : 5 = OpKind::Call;
  bool largest : 1 = false;  // of an all-reduce: takes the largest of its members' values, no sum
  Stream stream : 4 = Stream::Compute;
  Phase phase : 4 = Phase::None;
  std::uint16_t args_count = 0;
  Microbatch microbatch : kMicrobatchBits = -1;
  std::uint8_t after_count = 0;
  std::int32_t target = -1;
  std::uint32_t after_begin = 0;  // into Role::after
  std::uint32_t args_begin = 0;   // into Role::args
  std::int16_t layer = -1;
  std::int16_t stage = -1;
  std::int16_t root = 0;   // of a broadcast: the position in the group of the member that sends
  std::int16_t rows = -1;  // into Role::rows, where rows are counted (Role::rows_of)
  FunctionId function() const { return {target}; }
  GroupId group() const { return {target}; }
  int peer() const { return target; }
  HostData host() const { return static_cast<HostData>(target); }
  /// Whether the op is a copy between two buffers.
  bool moves_memory() const { return is_copy(kind) && host() == HostData::Memory; }
  /// Whether the op brings what the data loader made of a microbatch's samples.
  bool brings_samples() const { return kind == OpKind::HostToDevice && is_batch(host()); }
};
static_assert(sizeof(Op) == 28 && kNumOpKinds <= 32 && kNumStreams <= 16 && kNumPhases <= 16);
/// Compares neither where lists and rows are found nor what is there; operator== of Role compares
/// the content.
bool operator==(const Op& a, const Op& b);

/// What is expected of an op whose rows are counted as the program runs.
struct ExpectedRows {
  std::int32_t count = 0;  // how many a member has
  std::int32_t bytes = 0;  // of each
  bool operator==(const ExpectedRows&) const = default;
};

// ---------------------------------------------------------------- parameters

enum class InitKind : std::uint8_t { Zeros, Ones, Normal };

/// A parameter of the model, which all ranks know by its name. Its initial values are a function of
/// (seed, name, element index) alone, never of the rank.
struct Parameter {
  std::string name;                      // "blocks.3.attn.wqkv"
  IndexVector<int, std::int64_t> shape;  // of the whole parameter, before it is split or sharded
  InitKind init = InitKind::Normal;
  double init_scale = 0.02;  // standard deviation
  int split_dim = -1;        // the dimension that units with a split group divide; -1: none
  /// Sections of that dimension (such as q, k, v), each of which is divided; their sum is its size.
  std::vector<std::int64_t> sections = {};
  /// Of experts, which are the first dimension: how many of the parts divide these. The others
  /// divide each of them along split_dim, which then is not the first, or without one hold the
  /// same; the members of a split group come in the order (experts, parts of one).
  int first_parts = 1;
  std::int64_t elements() const;
  bool operator==(const Parameter&) const = default;
};
// What the names of adapters end with (LoRA): those of "x" are "x.lora_a" and "x.lora_b".
inline constexpr std::string_view kAdapterDown = ".lora_a", kAdapterUp = ".lora_b";
// What the names of Adafactor's second moments begin with: the means of squares of the rows of "x"
// are "adafactor_rows.x", and those of its columns "adafactor_columns.x".
inline constexpr std::string_view kFactorRows = "adafactor_rows.",
                                  kFactorColumns = "adafactor_columns.";
/// The name of the unit that has the factors of another.
std::string factors_of(const std::string& unit);
/// Whether a parameter belongs to an adapter.
inline bool is_adapter(const Parameter& parameter) {
  return parameter.name.ends_with(kAdapterDown) || parameter.name.ends_with(kAdapterUp);
}
// What the names of the biases end with that balance a router's choices.
inline constexpr std::string_view kRouterBias = ".router_bias";
// And of the scales of a linear layer's factors that follow from earlier steps.
inline constexpr std::string_view kFactorScales = ".fp8_scale";
/// Whether a training adds the parameter to a model which was trained without it, so that a state
/// may lack it.
inline bool may_begin_anew(const Parameter& parameter) {
  return is_adapter(parameter) || parameter.name.ends_with(kRouterBias) ||
         parameter.name.ends_with(kFactorScales) || parameter.name.starts_with(kFactorRows) ||
         parameter.name.starts_with(kFactorColumns);
}

/// Sections [first, end) of a parameter; all of them if `end` is 0. A unit holds some sections only
/// where others are divided over fewer ranks: keys and values of fewer heads than tensor-parallel
/// ranks lie in another unit than the queries.
struct SectionRange {
  int first = 0, end = 0;
  bool all() const { return end == 0; }
  bool holds(std::size_t section) const {
    const auto s = static_cast<std::int64_t>(section);
    return all() || (s >= first && s < end);
  }
  bool operator==(const SectionRange&) const = default;
};

/// How many elements one of `parts` ranks holds of a split parameter: ceil(section / parts) of
/// every section in the range, one after the other. If a section cannot be divided evenly, the last
/// ranks have fewer, then padding. With one part, or without a split, it is all elements.
std::int64_t held_elements(const Parameter& parameter, int parts, SectionRange sections = {});

struct UnitParameter {
  ParameterId parameter;
  std::int64_t offset = 0;  // in elements that a rank holds, from the start of the unit
  SectionRange sections{};  // those that the unit holds
  /// If not 0, ranks sum its gradient as a product of so low a rank (PowerSGD, Vogels et al. 2019).
  int low_rank = 0;
  bool operator==(const UnitParameter&) const = default;
};

/// An FSDP unit: parameters that are gathered, reduced and updated together (as a wrapped module),
/// laid out flat.
/// - A unit may be split, by tensor or expert parallelism: member i of `split_group` holds part i
///   of each parameter with a split dimension, as if it were a smaller parameter.
/// - It may be sharded: member i of `shard_group` owns elements [i, i+1) × shard_elements. With
///   `whole_param` a member keeps the moments of its shard only, but the parameters of all members
///   (ZeRO-1 and ZeRO-2).
struct Unit {
  std::string name;
  std::vector<UnitParameter> parameters;
  std::int64_t elements = 0;        // without padding
  std::int64_t shard_elements = 0;  // times the group's size, at least `elements`
  GroupId split_group;              // invalid if it is not split
  GroupId shard_group;              // invalid if it is not sharded
  // The next buffers are persistent and have shard_elements, except as said.
  BufferId param;           // with whole_param, shard_elements × the group's size
  BufferId master;          // if valid, the optimizer updates it, and `param` is rounded from it
  BufferId adam_m, adam_v;  // SGD has its momentum in adam_m, and no adam_v
  /// Of replicas that train apart (Program::sync_every), what the outer optimizer keeps: the
  /// parameters after the last synchronization, which all replicas took, and the momentum.
  BufferId outer, outer_momentum;
  /// Of gradients that are summed as low-rank products: what the products have left out so far of
  /// the rank's own gradients, with as many elements as the unit, and the right factors of its
  /// parameters, one behind the other (sketch_offset), which are the same on all ranks.
  BufferId feedback, sketch;
  GroupId feedback_group;  // the ranks whose gradients are summed; invalid if there is one
  /// If not 0, the moments are quantized states (core/base/quantized_state.hpp) of blocks of so
  /// many elements, which do not go beyond a shard.
  std::int64_t state_block = 0;
  /// The optimizer keeps second moments by rows and columns (Adafactor). They are parameters of
  /// another unit without moments, which is called "<name>.factors" (factors_of()).
  bool factored = false;
  /// If not 0, adam_m holds so many values of each element, one beside the other: what was measured
  /// in the last steps, the newest first (delayed_scale).
  std::int64_t history = 0;
  bool whole_param = false;
  /// With whole_param: a step ends when a rank's own piece is updated, and the next step begins
  /// with an all-gather of the others.
  bool gathered_late = false;
  bool tied_copy = false;  // a second copy of a tied parameter, which is not counted in norms
  bool frozen = false;     // its parameters are only read: it has neither gradients nor states
  /// Whether an optimizer updates it: running statistics and factors are updated otherwise.
  bool trained() const { return adam_m.valid() || factored; }
  /// The buffer that the optimizer updates.
  BufferId updated() const { return master.valid() ? master : param; }
  /// All persistent buffers of the unit; invalid ones are those that it does not have.
  std::array<BufferId, 8> persistent() const {
    return {param, master, adam_m, adam_v, outer, outer_momentum, feedback, sketch};
  }
  bool operator==(const Unit&) const = default;
};

// ---------------------------------------------------------------- roles and the program

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

/// As which matrix a gradient becomes a low-rank product: the parameter's first dimension by all
/// others, as PyTorch's powerSGD_hook takes it.
struct MatrixShape {
  std::int64_t rows = 0, cols = 0;
};
MatrixShape matrix_shape(const Parameter& parameter);
/// Where the right factor of parameter `index` of a unit begins in Unit::sketch, in elements;
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
