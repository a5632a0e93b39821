// StreamClock and StreamClocks: how far each stream of a rank has come, as far as its ops know.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>

#include "core/base/index_vector.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// By stream, a number that grows along it. It fills a line of the cache, so that two clocks are
/// merged by a few instructions without a loop.
struct alignas(64) StreamClock : IndexArray<Stream, std::int32_t, 16> {
  static_assert(kNumStreams <= 16);
  /// What is known after hearing of `other`, too.
  void merge(const StreamClock& other) {
    // By fours, as compilers make one comparison of each number of a loop.
    using Four [[gnu::vector_size(16)]] = std::int32_t;
    for (std::size_t s = 0; s < size(); s += 4) {
      Four mine, theirs;
      std::memcpy(&mine, data() + s, sizeof mine);
      std::memcpy(&theirs, other.data() + s, sizeof theirs);
      mine = mine > theirs ? mine : theirs;
      std::memcpy(data() + s, &mine, sizeof mine);
    }
  }
};

/// The vector clocks of the ops of a list: of each stream, the newest op that is known to have
/// ended when an op begins. Nearly all differ, but most only in how far those streams have come
/// between which the ops of a layer go to and fro. What is known of all others is kept once for the
/// ops that agree on it, such as most of those between two messages.
class StreamClocks {
  using Four [[gnu::vector_size(16)]] = std::int32_t;
  static constexpr int kOthers = 3;  // compute, layer and gather are near

 public:
  /// What is known at some place of a stream, of all streams but that one.
  class Clock {
    friend StreamClocks;
    // By stream that is near; and at kOthers, which of others_ is known of those that are not.
    Four known_ = {-1, -1, -1, 0};
  };

  /// Of so many ops.
  explicit StreamClocks(std::size_t ops) : clocks_(std::make_unique_for_overwrite<Clock[]>(ops)) {
    forget();
  }
  /// Forgets the clocks of all ops.
  void forget() {
    StreamClock none;
    none.fill(-1);
    others_.assign(1, none);
  }

  /// The newest op of a stream, another one than the clock's, that is known to have ended; -1:
  /// none.
  std::int32_t newest(const Clock& clock, Stream stream) const {
    const int s = static_cast<int>(stream);
    return s < kOthers ? clock.known_[s] : others_[clock.known_[kOthers]][stream];
  }
  std::int32_t newest(OpId op, Stream stream) const { return newest(clocks_[to_size(op)], stream); }

  /// Adds to a clock what is known when an op of `stream`, which is another one, has ended. The
  /// op's own clock must be kept.
  void hear(Clock& clock, OpId op, Stream stream) {
    const Four mine = clock.known_, theirs = clocks_[to_size(op)].known_;
    constexpr Four kNear = {-1, -1, -1, 0};
    clock.known_ = ((mine > theirs ? mine : theirs) & kNear) | (mine & ~kNear);
    if (is_near(stream) && mine[kOthers] == theirs[kOthers]) return;
    StreamClock others = others_[mine[kOthers]];
    others.merge(others_[theirs[kOthers]]);
    if (!is_near(stream)) others[stream] = std::max(others[stream], op.v);
    if (others == others_[mine[kOthers]]) return;
    if (others == others_[theirs[kOthers]]) {
      clock.known_[kOthers] = theirs[kOthers];
    } else {
      clock.known_[kOthers] = others_.next();
      others_.push_back(others);
    }
  }

  /// Keeps the clock of `stream` as that of its next op.
  void keep(Clock& clock, OpId op, Stream stream) {
    Clock& kept = clocks_[to_size(op)];
    kept = clock;  // before a part of it changes, for which the copy would wait
    if (is_near(stream)) clock.known_[static_cast<int>(stream)] = op.v;
    if (is_near(stream)) kept.known_[static_cast<int>(stream)] = op.v;
  }

 private:
  static bool is_near(Stream stream) { return static_cast<int>(stream) < kOthers; }

  std::unique_ptr<Clock[]> clocks_;                // by op; of those not kept it says nothing
  IndexVector<std::int32_t, StreamClock> others_;  // of streams that are near they say nothing
};

}  // namespace lockstep
