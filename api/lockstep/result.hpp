// Result: a value, or everything that is wrong. The library neither throws nor exits.
#pragma once

#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "lockstep/export.hpp"

namespace lockstep::api {
inline namespace v1 {

enum class FaultKind {
  Parse,
  InvalidSpec,
  Unsupported,
  OutOfMemory,
  Device,
  Expectation,
  Internal
};

struct Fault {
  FaultKind kind = FaultKind::Internal;
  std::string message;  // with the values, and what to do next
  std::string file;     // where the user wrote it; empty: in no file
  int line = 0;         // 1-based; 0: unknown
  int column = 0;
};

/// "file:line:column: message", as the command line prints it.
LOCKSTEP_EXPORT std::string to_string(const Fault& fault);
/// One fault a line.
LOCKSTEP_EXPORT std::string to_string(const std::vector<Fault>& faults);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}  // NOLINT: implicit
  Result(std::vector<Fault> faults)                                      // NOLINT: implicit
      : state_(std::in_place_index<1>, std::move(faults)) {}
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<0>(state_); }              // requires ok()
  const T& value() const { return std::get<0>(state_); }  // requires ok()
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const std::vector<Fault>& faults() const { return std::get<1>(state_); }  // requires !ok()

 private:
  std::variant<T, std::vector<Fault>> state_;
};

}  // namespace v1
}  // namespace lockstep::api
