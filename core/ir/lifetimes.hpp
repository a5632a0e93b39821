// Lifetimes: the buffers of a role in the order in which they begin or end.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// The root buffers that have a lifetime, sorted by its first op, and then by id.
std::vector<BufferId> temporaries_by_first(const Role& role);
/// The same by its last op.
std::vector<BufferId> temporaries_by_last(const Role& role);

/// Which streams use each root buffer, and the first and the last op of each that does.
class StreamUses {
 public:
  struct Use {
    BufferId root;
    Stream stream = Stream::Compute;
    OpId first, last;
    std::int32_t next = -1;  // the use of the same root before this one
  };

  /// Of so many buffers.
  explicit StreamUses(std::size_t buffers) : newest_(buffers, -1) {}
  /// Makes room for so many uses.
  void reserve(std::size_t uses) { uses_.reserve(uses); }
  /// Notes that an op, whose id is not less than those before, uses a root buffer.
  void add(BufferId root, Stream stream, OpId op) {
    for (std::int32_t at = newest_[root]; at >= 0; at = uses_[at].next) {
      if (uses_[at].stream == stream) {
        uses_[at].last = op;
        return;
      }
    }
    uses_.push_back({root, stream, op, op, newest_[root]});
    newest_[root] = uses_.next() - 1;
  }
  /// All uses, in the order in which they were added, each at its first op.
  std::span<const Use> all() const { return uses_; }
  bool any(BufferId root) const { return newest_[root] >= 0; }
  /// Calls visit(use) for those of a root.
  template <class Visit>
  void visit(BufferId root, Visit&& visit) const {
    for (std::int32_t at = newest_[root]; at >= 0; at = uses_[at].next) visit(uses_[at]);
  }

 private:
  IndexVector<BufferId, std::int32_t> newest_;  // by root; -1: none
  IndexVector<std::int32_t, Use> uses_;
};

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
