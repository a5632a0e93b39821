// Process: this operating-system process among those that run a program together. Each runs some of
// the ranks; what the executor and the communicators pass between processes goes through here.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/result.hpp"
#include "core/run/run_context.hpp"

namespace lockstep {

struct Outgoing {
  int to = 0;  // index of another process
  const std::byte* data = nullptr;
  std::int64_t bytes = 0;
};
struct Incoming {
  int from = 0;  // index of another process
  std::byte* data = nullptr;
  std::int64_t bytes = 0;
};

/// How a process waits in an exchange. Sleep: its peers may be busy elsewhere, so it sleeps. Awake:
/// they are in the exchange already, so it stays awake, but lets other threads run.
enum class Patience { Sleep, Awake };

/// What a process may send before anything is known of the program: what it will do, in words.
inline constexpr std::int64_t kMostBeforeProgram = std::int64_t{64} << 20;

struct Process : RunContext {
  /// The most bytes that another process may send to this one before they are waited for, or in one
  /// gather; more is a fault of its, which ends the run. Whoever knows the program sets it, before
  /// the processes agree to run it: see most_sent().
  std::atomic<std::int64_t> most_unasked = kMostBeforeProgram;

  virtual int index() const = 0;  // process 0 is the leader, which reports and writes files
  virtual int size() const = 0;
  /// Tags are 0 … max_tag(), and max_tag() is at least 32767. The functions below use tag 0 unless
  /// they are given another; transfers use 1 … max_tag() - 1, and saving uses max_tag().
  virtual int max_tag() const = 0;
  /// How far the now() of two processes may differ.
  virtual SimTime clock_uncertainty() const = 0;
  /// Sends all of `out` and receives all of `in`. Blocks until that is done; returns false as soon
  /// as any process has failed. Messages with one tag from one process to another arrive in the
  /// order of sending. Thread-safe: exchanges with different tags do not wait for each other.
  virtual bool exchange(int tag, std::span<const Outgoing> out, std::span<const Incoming> in,
                        Patience patience) = 0;
  /// Keeps the first error and sends it to all other processes, whose exchanges then end.
  void fail(const Error& error) override = 0;

  /// The last calls of the main thread are finish() and end_all(). finish() blocks until all
  /// processes have called it; if one failed before it came so far, finish() returns that error.
  virtual Result<void> finish() = 0;
  /// In the leader, ends all processes at once with this exit code; in another process, waits for
  /// the leader to do so. Returns only if there is no other process.
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

/// The kind of an error as it stands on a wire; Device for a number that is none.
inline ErrorKind kind_on_wire(unsigned char number) {
  return number <= static_cast<unsigned char>(ErrorKind::Internal) ? static_cast<ErrorKind>(number)
                                                                   : ErrorKind::Device;
}

/// The bytes that each process gave, by index. Blocks until all processes have called it with the
/// same tag; calls with different tags may be under way together. Errors: the failure of any
/// process; Device for more bytes than Process::most_unasked, which is then a failure of all.
Result<std::vector<std::vector<std::byte>>> all_gather(Process& process,
                                                       std::span<const std::byte> own, int tag = 0);
/// Returns the bytes of all processes, by index, to the leader. The others get nothing and go on
/// once theirs are sent.
Result<std::vector<std::vector<std::byte>>> gather(Process& process, std::span<const std::byte> own,
                                                   int tag = 0);

/// The values of all processes, one process's after the other's, by index.
template <class T>
Result<std::vector<T>> concatenated(const Result<std::vector<std::vector<std::byte>>>& gathered) {
  static_assert(std::is_trivially_copyable_v<T>);
  if (!gathered) return gathered.error();
  std::vector<T> values;
  for (const std::vector<std::byte>& bytes : *gathered) {
    if (bytes.size() % sizeof(T) != 0) {
      return Error{ErrorKind::Device,
                   "another process sent " + std::to_string(bytes.size()) +
                       " bytes, which is not a number of values of " + std::to_string(sizeof(T)),
                   std::nullopt};
    }
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

/// What to add to a process's clock: leader's clock = own clock + offset ± uncertainty.
struct ClockOffset {
  SimTime offset{}, uncertainty{};
};
/// Compares `clock` with the leader's by several round trips. The uncertainty is half the shortest
/// of them. An offset below the uncertainty is taken for zero, because the processes of one machine
/// share their clock. All processes call it together.
Result<ClockOffset> compare_clocks(Process& process, const std::function<SimTime()>& clock);

/// A clock that all processes share, which begins at about the moment of the call: its time is
/// clock() - zero.
struct SharedClock {
  SimTime zero{};
  SimTime uncertainty{};  // how far the shared clocks of two processes may differ
};
Result<SharedClock> share_clock(Process& process, const std::function<SimTime()>& clock);

}  // namespace lockstep
