// HappensBefore: which ops of a role have ended for certain when another one begins.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"
#include "core/ir/stream_clock.hpp"
#include "core/ir/users.hpp"

namespace lockstep::verification {

/// The vector clocks of one role's ops: of each stream, the newest op that is known to have ended.
/// An op follows the ops before it on its stream and those in `after`, and no others.
class HappensBefore {
 public:
  explicit HappensBefore(const Role& role) : role_(role), clocks_(role.ops.size()) {}

  /// Finds the clocks of `ops`, which come in the order of their ids, as if there were no others.
  /// They wait only where waits(op, n) says that the op does for the one at place n of its `after`,
  /// which must be one of `ops`.
  template <class Ops, class Waits>
  void follow(const Ops& ops, Waits&& waits) {
    clocks_.forget();
    IndexArray<Stream, StreamClocks::Clock, kNumStreams> tails;
    for (const OpId id : ops) {
      const Op& op = role_.op(id);
      StreamClocks::Clock& clock = tails[op.stream];
      const auto after = role_.after_of(op);
      for (std::size_t n = 0; n < after.size(); ++n) {
        if (!waits(id, n)) continue;
        // What an op of the same stream has heard, those behind it know.
        const Stream theirs = role_.op(after[n]).stream;
        if (theirs != op.stream) clocks_.hear(clock, after[n], theirs);
      }
      clocks_.keep(clock, id, op.stream);
    }
  }

  /// Whether an op of `stream` has ended when `op` begins, which itself counts as ended, so that it
  /// may touch a buffer twice. Asked about op -1, which stands for none, it is true.
  bool ended(std::int32_t earlier, Stream stream, OpId op) const {
    if (stream == role_.op(op).stream) return earlier <= op.v;
    return earlier <= clocks_.newest(op, stream);
  }
  /// One of the users, which are ops, that has not ended when `op` begins; invalid if all have.
  OpId first_unordered(const Users& users, OpId op) const {
    OpId first;
    users.visit([&](Stream stream, std::int32_t user) {
      if (!first.valid() && !ended(user, stream, op)) first = {user};
    });
    return first;
  }

 private:
  const Role& role_;
  StreamClocks clocks_;  // of those that were not followed it says nothing
};

}  // namespace lockstep::verification
