// RunLock: keeps two runs out of one folder. The operating system holds the lock for the process,
// so it is free again when the process ends, however it ends.
#pragma once

#include <string>
#include <utility>

#include "core/base/result.hpp"

namespace lockstep {

class RunLock {
 public:
  /// Takes the lock of a folder, FOLDER/.lock, and writes there who has it, and `token`. Error
  /// InvalidSpec if another process has it, which it names. On a file system that has no locks it
  /// takes none.
  static Result<RunLock> take(const std::string& folder, const std::string& token);
  RunLock(RunLock&& other) noexcept;
  RunLock& operator=(RunLock&& other) noexcept;
  ~RunLock();
  /// Whether the folder is still there, under its name. Error Device: it was removed or moved, so
  /// that what is written there now is in another folder, which another run may take.
  Result<void> check() const;

 private:
  RunLock(int fd, std::string folder) : fd_(fd), folder_(std::move(folder)) {}
  int fd_ = -1;
  std::string folder_;
};

/// What the holder of the lock has written into FOLDER/.lock; empty if there is no such file.
std::string read_lock(const std::string& folder);

/// Whether the process that took FOLDER/.lock last has ended, as far as that can be told: of a
/// process of another machine it cannot. Takes no lock, so that no run that begins is refused.
bool holder_has_ended(const std::string& folder);

}  // namespace lockstep
