// FirstError: the error that came first. When one rank fails the others fail after it; the user
// wants to see the cause.
#pragma once

#include <atomic>
#include <mutex>
#include <optional>

#include "core/base/result.hpp"

namespace lockstep {

/// Thread-safe.
class FirstError {
 public:
  /// Keeps `error` unless there is one already.
  void set(const Error& error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = error;
    is_set_.store(true, std::memory_order_release);
  }
  bool is_set() const { return is_set_.load(std::memory_order_acquire); }
  /// The error, if any, as the result of whatever found it.
  Result<void> result() const {
    const std::lock_guard lock(mutex_);
    if (error_) return *error_;
    return {};
  }

 private:
  mutable std::mutex mutex_;
  std::optional<Error> error_;
  std::atomic<bool> is_set_ = false;
};

}  // namespace lockstep
