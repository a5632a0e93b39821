// Buffer: a range of a rank's memory, what it is for, and when it is in use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "core/base/dtype.hpp"
#include "core/base/ids.hpp"
#include "core/base/units.hpp"

namespace lockstep {

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

}  // namespace lockstep
