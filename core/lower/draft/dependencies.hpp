// Dependencies: collects the ops that each op waits for, and keeps only the waits that the order of
// streams and earlier waits do not already imply. It uses vector clocks over streams.
#pragma once

#include <algorithm>
#include <memory>
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
  explicit Dependencies(Role& role)
      : role_(role), clocks_(std::make_unique_for_overwrite<Clock[]>(role.ops.size())) {
    for (Clock& clock : tails_) clock.fill(-1);
    begins_.reserve(role.ops.size() + 1);
  }

  void begin(OpId op) {
    op_ = op;
    stream_ = role_.op(op).stream;
    wanted_.clear();
    for (OpId earlier : role_.after_of(role_.op(op))) add(earlier);
  }
  void add(OpId earlier) { add(earlier, role_.op(earlier).stream); }
  /// The same where the op's stream is at hand.
  void add(OpId earlier, Stream theirs) {
    // An op of the same stream is waited for anyway.
    if (theirs != stream_ && tails_[stream_][theirs] < earlier.v) {
      wanted_.push_back({earlier, theirs});
    }
  }
  /// Keeps those waits of the op that nothing else implies.
  void end() {
    Clock& clock = tails_[stream_];
    begins_.push_back(static_cast<std::uint32_t>(after_.size()));
    // The newest wait comes first, because those that it implies are not needed.
    if (wanted_.size() > 1) std::sort(wanted_.begin(), wanted_.end(), std::greater<>());
    for (const auto& [earlier, theirs] : wanted_) {
      if (clock[theirs] >= earlier.v) continue;
      after_.push_back(earlier);
      clock.merge(clocks_[to_size(earlier)]);
    }
    if (after_.size() > begins_.back() + 1)
      std::sort(after_.begin() + begins_.back(), after_.end());
    Clock& kept = clocks_[to_size(op_)];
    kept = clock;  // before one place of it changes, for which the copy would wait
    kept[stream_] = op_.v;
    clock[stream_] = op_.v;
  }
  void store() {
    begins_.push_back(static_cast<std::uint32_t>(after_.size()));
    for (std::size_t i = 0; i < role_.ops.size(); ++i) {
      role_.ops[i].after_begin = begins_[i];
      role_.ops[i].after_count = static_cast<std::uint8_t>(begins_[i + 1] - begins_[i]);
    }
    role_.after = std::vector<OpId>(after_.begin(), after_.end());  // without room to grow
  }

 private:
  // Says of each stream which is the newest op that is known to have ended. At most one wait for
  // each other stream is kept, so that after_count fits its byte.
  using Clock = StreamClock;

  Role& role_;
  OpId op_;
  Stream stream_{};  // of the op
  struct Wait {
    OpId op;
    Stream stream;  // of that op
    auto operator<=>(const Wait&) const = default;
  };
  std::vector<Wait> wanted_;
  std::unique_ptr<Clock[]> clocks_;               // by op; those to come are not set
  IndexArray<Stream, Clock, kNumStreams> tails_;  // of the newest op of each stream
  std::vector<OpId> after_;
  std::vector<std::uint32_t> begins_;
};

}  // namespace lockstep
