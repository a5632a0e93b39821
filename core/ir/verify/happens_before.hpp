// HappensBefore: which ops of a role have ended for certain when another one begins.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"
#include "core/ir/stream_clock.hpp"
#include "core/ir/users.hpp"

namespace lockstep::verification {

/// The vector clocks of one role's ops: of each stream, the newest op that is known to have ended.
/// An op follows the ops before it on its stream and those in `after`, and no others.
class HappensBefore {
 public:
  using Clock = StreamClock;

  explicit HappensBefore(const Role& role)
      : role_(role), clocks_(std::make_unique_for_overwrite<Clock[]>(role.ops.size())) {}

  /// Finds the clocks of `ops`, which come in the order of their ids, as if there were no others.
  /// They wait only where waits(op, n) says that the op does for the one at place n of its `after`,
  /// which must be one of `ops`.
  template <class Ops, class Waits>
  void follow(const Ops& ops, Waits&& waits) {
    Clock none;
    none.fill(-1);
    IndexArray<Stream, OpId, kNumStreams> tails;
    for (const OpId id : ops) {
      const Op& op = role_.op(id);
      OpId& tail = tails[op.stream];
      Clock& clock = clocks_[to_size(id)] = tail.valid() ? clocks_[to_size(tail)] : none;
      const auto after = role_.after_of(op);
      for (std::size_t n = 0; n < after.size(); ++n) {
        if (waits(id, n)) clock.merge(clocks_[to_size(after[n])]);
      }
      clock[op.stream] = id.v;
      tail = id;
    }
  }

  /// What has ended when the op begins. The op itself counts as ended, so that it may touch a
  /// buffer twice.
  const Clock& before(OpId op) const { return clocks_[to_size(op)]; }
  /// One of the users, which are ops, that has not ended when `op` begins; invalid if all have.
  OpId first_unordered(const Users& users, OpId op) const {
    OpId first;
    users.visit([&](Stream stream, std::int32_t user) {
      if (!first.valid() && user > before(op)[stream]) first = {user};
    });
    return first;
  }

 private:
  const Role& role_;
  std::unique_ptr<Clock[]> clocks_;  // by op; of those that were not followed it says nothing
};

}  // namespace lockstep::verification
