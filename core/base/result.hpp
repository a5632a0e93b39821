// Result: a value or an Error. For a mistake of the user, library code never exits, aborts or
// returns a null pointer. An error names the line of the user's file if the user can mend it, else
// the line of this code.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <variant>

namespace lockstep {

enum class ErrorKind {
  Parse,
  InvalidSpec,
  Unsupported,
  OutOfMemory,
  Device,
  Expectation,
  Internal
};

struct SourceSpan {
  std::string file;
  int line = 0;    // 1-based
  int column = 0;  // 1-based
  bool operator==(const SourceSpan&) const = default;
};

struct Error {
  ErrorKind kind = ErrorKind::Internal;
  std::string message;  // with the values: "pp=3 does not divide 32 layers"
  std::optional<SourceSpan> where;
  const char* raised_file = __builtin_FILE();
  int raised_line = __builtin_LINE();
};

/// The Error (ErrorKind::InvalidSpec) for a mistake of the user that stands in no line of a file.
Error invalid(std::string message, const char* file = __builtin_FILE(),
              int line = __builtin_LINE());

/// "file:line:column: message"; internal errors also say where they were raised.
std::string to_string(const Error& error);

/// The exit code of the command line, as documented: 2 for user input, 3 out of memory, 4 device,
/// 5 an [expect] that failed, 70 a fault of Lockstep.
int exit_code(ErrorKind kind);

template <class T>
class [[nodiscard]] Result {
 public:
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}      // NOLINT: implicit
  Result(Error error) : state_(std::in_place_index<1>, std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return state_.index() == 0; }
  explicit operator bool() const { return ok(); }
  T& value() { return std::get<0>(state_); }              // requires ok()
  const T& value() const { return std::get<0>(state_); }  // requires ok()
  T& operator*() { return value(); }
  const T& operator*() const { return value(); }
  T* operator->() { return &value(); }
  const T* operator->() const { return &value(); }
  const Error& error() const { return std::get<1>(state_); }  // requires !ok()

 private:
  std::variant<T, Error> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Error error) : error_(std::move(error)) {}  // NOLINT: implicit
  bool ok() const { return !error_; }
  explicit operator bool() const { return ok(); }
  const Error& error() const { return *error_; }  // requires !ok()

 private:
  std::optional<Error> error_;
};

}  // namespace lockstep
