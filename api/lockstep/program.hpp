// Program: what every rank computes, sends, gathers and keeps in a step.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "lockstep/result.hpp"
#include "lockstep/scenario.hpp"

namespace lockstep::api {
inline namespace v1 {

/// Memory of the rank that needs most, in bytes.
struct MemoryNeed {
  std::int64_t arena = 0;      // the program's buffers
  std::int64_t allocated = 0;  // PyTorch's max_memory_allocated
  std::int64_t process = 0;    // what nvidia-smi shows
  std::int64_t available = 0;  // of the device; 0: the cluster names no limit
};

class LOCKSTEP_EXPORT Program {
 public:
  /// Lowers a scenario, whether it fits into its devices or not. The result is verified.
  static Result<Program> lower(const Scenario& scenario);
  /// Reads a program's text (docs/program-text.md) without verifying it.
  static Result<Program> parse(const std::string& text);

  std::string text() const;
  std::string hash() const;  // 16 hexadecimal digits; those of report.json
  int ranks() const;
  std::int64_t ops() const;  // of all ranks together
  /// What is wrong with it: deadlocks, races, reads of what means nothing (docs/verify.md).
  std::vector<Fault> verify() const;
  /// On the cluster of `scenario`, which the program may have been lowered from.
  MemoryNeed memory(const Scenario& scenario) const;

  struct Data;  // the library's own
  explicit Program(std::shared_ptr<const Data> data) : data_(std::move(data)) {}
  const Data& data() const { return *data_; }

 private:
  std::shared_ptr<const Data> data_;
};

}  // namespace v1
}  // namespace lockstep::api
