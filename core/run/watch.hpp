// Watch: looks, from a thread of its own, whether the processes of a run are alive and get on.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "core/base/result.hpp"
#include "core/run/run_context.hpp"

namespace lockstep {

/// How a process is doing: what it tells the others in every beat.
struct Pulse {
  std::uint64_t progress = 0;  // ops that have ended
  std::uint8_t running = 0;    // an op has begun and not ended
  std::uint8_t waiting = 0;    // a thread waits for another process
  std::uint8_t idle = 0;       // it has computed next to nothing since the last beat
  std::uint8_t occupied = 0;   // it may wait for a disk
  std::array<std::uint8_t, 4> unused{};
};

/// What a process has had of the processors. A thread that is ready to run on a busy machine is not
/// idle, although it gets little; one that wakes now and then is, however long it then waits.
struct ProcessorUse {
  double used = 0;                       // s, of all threads
  std::map<std::string, double> wanted;  // by thread: s in which it ran or was ready to run
  static ProcessorUse now();
  /// Whether the process has used next to nothing since then, and no thread wanted more.
  bool idle_since(const ProcessorUse& before, double seconds) const;
};

/// Whether a process whose last pulses are these has done nothing in between, though it should.
bool is_quiet(const Pulse& before, const Pulse& now);

/// How long a process may be silent, or a run without progress, before the run fails: the value of
/// LOCKSTEP_TIMEOUT_SECONDS, or 10. Seconds; 0: for ever. Error InvalidSpec if it is no number.
Result<double> watch_timeout();

/// What the looks at the others have come to. It has no clock, so that a test can be one.
///
/// Silence is counted only while this process looks: each look adds the time since the one before
/// it, but at most two intervals. So a process that was itself stopped or starved does not blame
/// the others for what it has not seen, and what it was starved of is added to the time in which it
/// finds them.
class Lookout {
 public:
  using Duration = std::chrono::duration<double>;
  /// `timeout` is above 0.
  Lookout(int index, int size, Duration timeout);

  Duration interval() const { return interval_; }  // between two looks, and between two beats
  /// Who is silent, or hangs, for so long fails: two intervals less than the timeout, so that what
  /// is found is found and said within it.
  Duration longest() const { return timeout_ - 2 * interval_; }

  // Any thread may call these.
  void heard(int peer);  // anything has come from it
  void heard(int peer, const Pulse& pulse);
  void left(int peer);  // it has said goodbye, or its end is known: its silence means nothing
  bool silent(int peer) const;  // a look has found it so

  /// `since` is the time since the last look and `own` this process's pulse. `name_of` a process is
  /// for the message. Error Device if another process is silent, or if the run stands still: if no
  /// process has ended an op, although each is in one or waits for another, and none computes.
  Result<void> look(Duration since, const Pulse& own,
                    const std::function<std::string(int)>& name_of);

 private:
  struct Seen {
    std::atomic<bool> heard = false, left = false, silent = false;
    Duration silence{};
    std::mutex mutex;  // guards what follows
    Pulse pulse;
    Duration quiet{};  // for how long its pulses have shown no progress
  };
  Result<void> look_for_silent(const std::function<std::string(int)>& name_of) const;
  Result<void> look_for_standstill();

  int index_;
  Duration timeout_, interval_;
  std::vector<Seen> seen_;  // by process; the own one has a pulse only
};

/// Beats and looks until it is stopped. If the run has failed and this process still does not end,
/// because an op hangs, it ends the process with the exit code of ErrorKind::Device.
class Watch {
 public:
  struct Ways {
    int index = 0, size = 1;  // of this process
    std::function<std::string(int)> name_of = {};
    /// Tells the others how this process is doing, without blocking; it may call heard().
    std::function<void(const Pulse&)> beat = {};
  };
  /// What it is given must outlive it.
  Watch(RunContext& run, double timeout, Ways ways);  // seconds
  ~Watch() { stop(); }
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  /// Starts to beat and look; does nothing if the timeout is 0.
  void start();
  Lookout& lookout() { return lookout_; }
  const Lookout& lookout() const { return lookout_; }
  /// From now on silence is no failure, but silent() still tells it; it goes on beating.
  void end_looking() { looks_ = false; }
  /// Blocks until the thread has ended.
  void stop();

 private:
  void run();
  Pulse pulse();
  void give_up(const Error& error) const;

  RunContext& run_;
  double timeout_;
  Ways ways_;
  Lookout lookout_;
  std::atomic<bool> looks_ = true;
  ProcessorUse use_;  // at the last pulse
  std::chrono::steady_clock::time_point last_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace lockstep
