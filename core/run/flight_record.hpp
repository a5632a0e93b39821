// FlightRecord: which ops the ranks of a process ran last, and which of them have not ended. After
// a failure it says what everyone was waiting for.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Keeps the last kKept ops. Thread-safe.
class FlightRecord {
 public:
  static constexpr std::size_t kKept = 512;

  struct Entry {
    Rank rank = 0;
    OpId op;
    int step = 0;
    SimTime begin{}, end{};
    bool ended = false;
  };
  /// The number of an op that begins, for end().
  std::uint64_t begin(Rank rank, OpId op, int step, SimTime now) {
    const std::lock_guard lock(mutex_);
    entries_[next_ % kKept] = Entry{rank, op, step, now, SimTime{}, false};
    return next_++;
  }
  void end(std::uint64_t number, SimTime now) {
    const std::lock_guard lock(mutex_);
    ++ended_;
    if (number + kKept < next_) return;  // another op has taken its place
    entries_[number % kKept].end = now;
    entries_[number % kKept].ended = true;
  }
  /// How many ops have ended since the beginning: a process in which this stands still makes no
  /// progress.
  std::uint64_t ended() const {
    const std::lock_guard lock(mutex_);
    return ended_;
  }
  /// Whether an op has begun and not ended.
  bool running() const {
    const std::lock_guard lock(mutex_);
    return next_ > ended_;
  }
  std::vector<Entry> entries() const;  // in the order in which they began

 private:
  mutable std::mutex mutex_;
  std::array<Entry, kKept> entries_;
  std::uint64_t next_ = 0, ended_ = 0;
};

/// One line for every op that has not ended: "rank 1 waits since 10.0 s in step 4 in %12 all_reduce
/// for ranks 0 2" of a transfer, "rank 0 runs since 10.0 s in step 4 in %9 call F" of others. Empty
/// if there is none.
std::string waiting_text(const FlightRecord& record, const Program& program, SimTime now);
/// The whole record, one op per line.
std::string flight_text(const FlightRecord& record, const Program& program, SimTime now);

}  // namespace lockstep
