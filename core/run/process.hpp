// Process: this operating-system process among those that run a program together. Each runs some of
// the ranks; what the executor and the communicators pass between processes goes through here.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <type_traits>
#include <vector>

#include "core/base/result.hpp"
#include "core/run/run_context.hpp"

namespace lockstep {

struct Outgoing {
  int to = 0;  // index of a process, not one's own
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;
};
struct Incoming {
  int from = 0;
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// Whether the peers of an exchange may be busy elsewhere (sleep meanwhile) or are in it already
/// (stay awake, but let other threads run).
enum class Patience { Sleep, Awake };

struct Process : RunContext {
  virtual int index() const = 0;  // 0 leads: it reports and writes files
  virtual int size() const = 0;
  /// Tags are 0 … max_tag(), at least 32767; 0 is for the functions below.
  virtual int max_tag() const = 0;
  /// How far the now() of two processes may differ.
  virtual SimTime clock_uncertainty() const = 0;
  /// Sends and receives all; blocks until that is done, or returns false once any process has
  /// failed. Messages with one tag from one process to another arrive in the order of sending.
  /// Thread-safe: exchanges with different tags do not wait for each other.
  virtual bool exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                        Patience patience) = 0;
  /// Keeps the first error and sends it to all other processes, whose exchanges then end.
  void fail(const Error& error) override = 0;

  /// The last two calls, of the main thread. The first blocks until all have called it; an error is
  /// that of a process which did not come so far.
  virtual Result<void> finish() = 0;
  /// The leader ends all processes at once, which then have this exit code; another process waits
  /// for that. Returns only if there is no other process.
  virtual void end_all(int exit_code) = 0;
};

/// The process that runs all ranks itself.
class SoleProcess final : public Process {
 public:
  int index() const override { return 0; }
  int size() const override { return 1; }
  int max_tag() const override { return 32767; }
  bool exchange(int, std::span<const Outgoing>, std::span<const Incoming>, Patience) override {
    return !failure_.is_set();
  }
  void fail(const Error& error) override { failure_.set(error); }
  const FirstError& failure() const override { return failure_; }
  SimTime clock_uncertainty() const override { return {}; }
  SimTime now() const override {
    return std::chrono::duration_cast<SimTime>(std::chrono::steady_clock::now() - epoch_);
  }
  Result<void> finish() override { return {}; }
  void end_all(int) override {}

 private:
  const std::chrono::steady_clock::time_point epoch_ = std::chrono::steady_clock::now();
  FirstError failure_;
};

/// Every process's bytes, by index. Blocks until all have called; the error is the run's.
Result<std::vector<std::vector<std::byte>>> all_gather(Process& process,
                                                       std::span<const std::byte> own);
/// The same in the leader; the others get nothing and go on once theirs are sent.
Result<std::vector<std::vector<std::byte>>> gather(Process& process,
                                                   std::span<const std::byte> own);

/// Every process's values, one after the other by index.
template <class T>
Result<std::vector<T>> concatenated(const Result<std::vector<std::vector<std::byte>>>& gathered) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!gathered) return gathered.error();
  std::vector<T> values;
  for (const std::vector<std::byte>& bytes : *gathered) {
    const std::size_t first = values.size();
    values.resize(first + bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.data() + first, bytes.data(), bytes.size());
  }
  return values;
}
template <class T>
Result<std::vector<T>> all_gather_values(Process& process, const std::vector<T>& own) {
  return concatenated<T>(all_gather(process, std::as_bytes(std::span(own))));
}
template <class T>
Result<std::vector<T>> gather_values(Process& process, const std::vector<T>& own) {
  return concatenated<T>(gather(process, std::as_bytes(std::span(own))));
}

/// Leader's clock = own clock + offset ± uncertainty.
struct ClockOffset {
  SimTime offset{}, uncertainty{};
};
/// Half the shortest of some round trips to the leader is the uncertainty. An offset below it is
/// taken for zero: the processes of one machine share their clock. All processes call it together.
Result<ClockOffset> compare_clocks(Process& process, const std::function<SimTime()>& clock);

/// A clock for all processes, from about this moment on: clock() - zero.
struct SharedClock {
  SimTime zero{};
  SimTime uncertainty{};  // of two processes against each other
};
Result<SharedClock> share_clock(Process& process, const std::function<SimTime()>& clock);

}  // namespace lockstep
