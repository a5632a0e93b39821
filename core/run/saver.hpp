// Saver: saves the state of a run in the background. A thread copies each rank's part of the state
// to the host while the next step computes with it, and writes the copy.
#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"
#include "core/ir/training_state.hpp"
#include "core/run/executor.hpp"
#include "core/run/process.hpp"
#include "core/run/snapshot.hpp"

namespace lockstep {

/// Every process of a run has one, and all call save() and wait() at the same steps. No process
/// ever holds more than a copy of what its own ranks save. Used from one thread; what the
/// constructor is given must outlive it.
class Saver {
 public:
  Saver(const Program& program, std::span<const RankPort> ports, Process& process,
        StateStore& store)
      : program_(program), process_(process), store_(store), snapshot_(program, ports) {}
  ~Saver();  // blocks until the thread has ended, which it does soon once the run has failed
  Saver(const Saver&) = delete;
  Saver& operator=(const Saver&) = delete;

  /// Blocks until an earlier save has ended. The state must not change before finish_copy().
  /// Errors: those of check(). `notes` are those of StateHead.
  Result<void> save(int step, std::int64_t samples,
                    const std::map<std::string, std::string>& notes);
  /// Blocks until the state of the last save is copied, and helps with that; any thread may call
  /// it. Error: that of a device.
  Result<void> finish_copy() { return snapshot_.copy(); }
  /// The error of a save that has failed, in any process. A state with a number that is not finite
  /// is left out without an error; see refused().
  Result<void> check() const;
  /// Blocks until the last save has ended. Errors: those of check().
  Result<void> wait();
  /// The step of the last state that was saved whole.
  std::optional<int> saved() const;
  /// Why the last save was left out, because the state holds a number that is not finite.
  std::optional<std::string> refused() const;

 private:
  Result<void> write(const StateHead& head);  // on the thread
  /// Tells the others that this process has come so far, and what it gives or why it refuses;
  /// returns what they all give, by process, or nothing if any of them refuses. Error: that of a
  /// process that has failed.
  struct Said {
    std::vector<std::byte> given;
    std::string refusal;
  };
  using Given = std::vector<std::vector<std::byte>>;
  Result<std::optional<Given>> share(const Said& own);
  void refuse(const std::string& why);

  const Program& program_;
  Process& process_;
  StateStore& store_;
  StateSnapshot snapshot_;  // the thread reads it while it runs
  std::thread thread_;
  mutable std::mutex mutex_;  // guards what follows
  std::optional<Error> error_;
  std::optional<std::string> refused_;
  std::optional<int> saved_;
};

}  // namespace lockstep
