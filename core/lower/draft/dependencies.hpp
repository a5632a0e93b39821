// Dependencies: collects the ops that each op waits for, and keeps only the waits that the order of
// streams and earlier waits do not already imply. It uses vector clocks over streams.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"
#include "core/ir/stream_clock.hpp"

namespace lockstep {

/// For each op in order, call begin(id), add(op) for each op that it waits for, and end(). Then
/// call store(), which replaces the `after` lists of the role. Waits that the role already has are
/// kept.
class Dependencies {
 public:
  explicit Dependencies(Role& role) : role_(role), clocks_(role.ops.size()) {}

  void begin(OpId op) {
    op_ = op;
    stream_ = role_.op(op).stream;
    clock_ = &tails_[stream_];
    wanted_.clear();
    for (OpId earlier : role_.after_of(role_.op(op))) add(earlier);
  }
  void add(OpId earlier) { add(earlier, role_.op(earlier).stream); }
  /// The same where the op's stream is at hand.
  void add(OpId earlier, Stream theirs) {
    // An op of the same stream is waited for anyway.
    if (theirs != stream_ && clocks_.newest(*clock_, theirs) < earlier.v) {
      wanted_.push_back({earlier, theirs});
    }
  }
  /// Keeps those waits of the op that nothing else implies.
  void end() {
    StreamClocks::Clock& clock = *clock_;
    const std::size_t begin = after_.size();
    // The newest wait comes first, because those that it implies are not needed.
    if (wanted_.size() > 1) std::sort(wanted_.begin(), wanted_.end(), std::greater<>());
    for (const auto& [earlier, theirs] : wanted_) {
      if (clocks_.newest(clock, theirs) >= earlier.v) continue;
      after_.push_back(earlier);
      clocks_.hear(clock, earlier, theirs);
    }
    if (after_.size() > begin + 1) {
      std::sort(after_.begin() + static_cast<std::ptrdiff_t>(begin), after_.end());
    }
    clocks_.keep(clock, op_, stream_);
    // Its former list has been read. At most one wait for each other stream is kept, so that the
    // count fits its byte.
    Op& op = role_.ops[op_];
    op.after_begin = static_cast<std::uint32_t>(begin);
    op.after_count = static_cast<std::uint8_t>(after_.size() - begin);
  }
  void store() { role_.after = std::vector<OpId>(after_.begin(), after_.end()); }  // without room

 private:
  Role& role_;
  OpId op_;
  Stream stream_{};                       // of the op
  StreamClocks::Clock* clock_ = nullptr;  // of the stream
  struct Wait {
    OpId op;
    Stream stream;  // of that op
    auto operator<=>(const Wait&) const = default;
  };
  std::vector<Wait> wanted_;
  StreamClocks clocks_;
  IndexArray<Stream, StreamClocks::Clock, kNumStreams> tails_;  // after the newest op of each
  std::vector<OpId> after_;                                     // the new lists
};

}  // namespace lockstep
