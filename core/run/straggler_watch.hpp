// StragglerWatch: how long each rank waits for others, and which one they all wait for.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/units.hpp"
#include "core/ir/program.hpp"
#include "core/run/device.hpp"

namespace lockstep {

/// The time of a rank's step in which it only waits for other ranks: some transfer is between begin
/// and active, and no op is between active and end.
Seconds time_waiting(std::span<const OpTime> times);

/// What the waiting of all ranks in a step comes to.
struct Waits {
  Seconds mean;                        // over ranks
  std::optional<Rank> straggler = {};  // who was found late last
  /// The most that the host of a rank took to make the step's samples ready. It gives the device
  /// nothing to do in that time.
  Seconds loading = {};
};

/// Finds the rank for which the others wait. Over kWindow steps, a rank is late by what the others
/// wait (their median) and it does not; the latest one is a straggler if that is more than kLate of
/// the time.
class StragglerWatch {
 public:
  static constexpr int kWindow = 16;
  static constexpr double kLate = 0.15;
  /// Takes in a step, with the waiting time of each rank. Returns a sentence to say when another
  /// rank, or none any more, is found late; else an empty text.
  std::string add(Seconds step, const std::vector<Seconds>& waiting);
  const Waits& waits() const { return waits_; }  // without `loading`

 private:
  Waits waits_;
  int steps_ = 0;  // in the window so far
  Seconds time_;
  std::vector<Seconds> waiting_;  // by rank
};

}  // namespace lockstep
