// RunContext: what all devices and communicators of a run in one process share, that is, the clock
// of the run and the error that ended it.
#pragma once

#include <atomic>

#include "core/base/units.hpp"
#include "core/run/first_error.hpp"
#include "core/run/flight_record.hpp"

namespace lockstep {

/// Thread-safe.
struct RunContext {
  virtual ~RunContext() = default;
  /// Keeps the first error and wakes everyone who waits for a peer.
  virtual void fail(const Error& error) = 0;
  virtual const FirstError& failure() const = 0;
  /// The time on the clock that all ranks share; it began at some moment before the run.
  virtual SimTime now() const = 0;

  FlightRecord flight;            // of the ranks of this process
  std::atomic<int> occupied = 0;  // how many threads may be waiting for a disk
};

}  // namespace lockstep
