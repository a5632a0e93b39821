// RunContext: what all devices and communicators of a run in one process share: its clock and the
// error that ended it.
#pragma once

#include "core/base/units.hpp"
#include "core/run/first_error.hpp"

namespace lockstep {

/// Thread-safe.
struct RunContext {
  virtual ~RunContext() = default;
  /// Keeps the first error and lets go of everyone who waits for a peer.
  virtual void fail(const Error& error) = 0;
  virtual const FirstError& failure() const = 0;
  /// The clock of all ranks, from some moment before the run on.
  virtual SimTime now() const = 0;
};

}  // namespace lockstep
