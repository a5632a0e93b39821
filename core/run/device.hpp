// Device and Communicator: what a real backend provides. One Device is one rank's accelerator with
// its arena; the executor (core/run/executor.hpp) walks the program and enqueues.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Numbers of a step that are not in the program.
struct StepContext {
  int step = 0;      // 0-based global step: AdamW's t is step + 1
  double lr = 0;
};

/// Start and end of an op on the device, on the rank's clock.
struct OpTime {
  OpId op;
  SimTime begin{}, active{}, end{};
};

/// One rank's accelerator; used from one host thread. Streams are in order and run concurrently.
struct Device {
  virtual ~Device() = default;
  /// Asked of every function before any op runs.
  virtual bool supports(const Kernel& kernel) const = 0;
  virtual void begin_step(const StepContext& context) = 0;
  /// Neither blocks nor waits; in order within op.stream. `args` are resolved arena addresses.
  virtual Result<void> enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) = 0;
  virtual Result<void> enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                                    std::size_t bytes) = 0;
  /// All later work of op.stream starts after `dependency` (an op enqueued before) has ended.
  virtual Result<void> wait(Stream waiter, OpId dependency) = 0;
  /// The only call that blocks: all streams are idle after it. Returns the times of the step's ops
  /// if timing was asked for.
  virtual Result<std::vector<OpTime>> synchronize() = 0;
  virtual std::byte* arena() = 0;
};

/// Transfers between the ranks of one run; one instance per rank, same stream semantics as Device.
struct Communicator {
  virtual ~Communicator() = default;
  virtual Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                               std::span<const std::int64_t> bytes, DType dtype) = 0;
};

}  // namespace lockstep
