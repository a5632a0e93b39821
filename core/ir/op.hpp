// Op: what a rank does next on one of its streams, and the kinds that there are.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/ids.hpp"
#include "core/base/phase.hpp"
#include "core/ir/buffer.hpp"

namespace lockstep {

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
///   tokens behind them have; DocumentPositions counts the rank's own tokens from there. Windows
///   are the positions of the first keys that these tokens see where a query sees
///   Samples::window tokens.
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
  Windows,
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
/// The data that a formal of this name is for; none if it is for something else.
std::optional<HostData> host_data_of(std::string_view formal);

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

}  // namespace lockstep
