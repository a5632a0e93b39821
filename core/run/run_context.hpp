// RunContext: what all devices and communicators of a run in one process share, that is, the clock
// of the run, the error that ended it, and what is under way.
#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>

#include "core/base/units.hpp"
#include "core/ir/program.hpp"
#include "core/run/first_error.hpp"
#include "core/run/flight_record.hpp"

namespace lockstep {

/// What the ranks of this process are doing. Thread-safe.
struct Activity {
  FlightRecord flight;
  std::atomic<int> occupied = 0;  // how many threads may be waiting for a disk, or let time pass
  std::atomic<int> waiting = 0;   // how many threads wait for another process

  /// What is called, with the error, if this process must be ended because it does not end by
  /// itself. An empty function takes it back; the last one must not be running then.
  void set_last_words(std::function<void(const Error&)> say) {
    const std::lock_guard lock(mutex_);
    last_words_ = std::move(say);
  }
  void say_last_words(const Error& error) const {
    const std::lock_guard lock(mutex_);
    if (last_words_) last_words_(error);
  }

 private:
  mutable std::mutex mutex_;
  std::function<void(const Error&)> last_words_;
};

/// While it exists, a count of Activity is one higher.
class Counted {
 public:
  explicit Counted(std::atomic<int>& count) : count_(count) { ++count_; }
  ~Counted() { --count_; }
  Counted(const Counted&) = delete;
  Counted& operator=(const Counted&) = delete;

 private:
  std::atomic<int>& count_;
};

/// Counts a call as occupied if it lets time pass by itself (KernelKind::Delay): however long it
/// has been told to take, it ends, and nobody takes it for one that hangs.
class CountedDelay {
 public:
  CountedDelay(Activity& activity, const Function& function) {
    for (const Kernel& kernel : function.kernels) {
      if (kernel.kind == KernelKind::Delay && !counted_) counted_.emplace(activity.occupied);
    }
  }

 private:
  std::optional<Counted> counted_;
};

/// Thread-safe.
struct RunContext {
  RunContext() = default;
  /// A context of the same activity as another one's.
  explicit RunContext(std::shared_ptr<Activity> shared) : activity(std::move(shared)) {}
  virtual ~RunContext() = default;
  /// Keeps the first error and wakes everyone who waits for a peer.
  virtual void fail(const Error& error) = 0;
  virtual const FirstError& failure() const = 0;
  /// The time on the clock that all ranks share; it began at some moment before the run.
  virtual SimTime now() const = 0;

  const std::shared_ptr<Activity> activity = std::make_shared<Activity>();
};

}  // namespace lockstep
