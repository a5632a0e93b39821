// Lifetimes: the buffers of a role in the order in which they begin or end.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "core/ir/program.hpp"

namespace lockstep {

/// The root buffers that have a lifetime, sorted by its first or its last op, and then by id.
std::vector<BufferId> temporaries_by(OpId Buffer::*op, const Role& role);

/// Which ops use each root buffer. The program reserves a buffer from Buffer::first to
/// Buffer::last, in the order of its ops, which is longer where a transfer uses it last; but what
/// takes its bytes over waits for those that use it alone. So in time it is in use from the begin
/// of the first of these to the end of the last.
class BufferUses {
 public:
  explicit BufferUses(const Role& role);
  /// On each stream that uses it the first and the last op that name it or a view of it, in any
  /// order; of a buffer that no op names, its first and last. Empty: it has no lifetime.
  std::span<const OpId> of(BufferId root) const {
    return {ops_.data() + begin_[to_size(root)], begin_[to_size(root) + 1] - begin_[to_size(root)]};
  }

 private:
  std::vector<std::size_t> begin_;  // by root buffer, into ops_; and the end
  std::vector<OpId> ops_;
};

}  // namespace lockstep
