// Device and Communicator: what a real backend provides. One Device is one rank's accelerator with
// its arena; the executor (core/run/executor.hpp) walks the program and enqueues.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// Numbers of a step that are not in the program.
struct StepContext {
  int step = 0;  // 0-based global step: AdamW's t is step + 1 (see context_of)
  double lr = 0;
  bool timed = true;       // the times of the step's ops are wanted
  std::uint64_t seed = 0;  // of the run, for kernels that round at random
};

/// The same for one op: a step that updates the weights several times counts as many.
inline StepContext context_of(const Program& program, const Op& op, StepContext step) {
  if (program.updates_per_step == 1) return step;
  step.step = step.step * program.updates_per_step + std::max(op.microbatch, 0);
  return step;
}

/// Start and end of an op on the device, on the clock that all ranks of the run share.
struct OpTime {
  OpId op;
  SimTime begin{};   // reached the front of its stream, dependencies met
  SimTime active{};  // all peers have arrived: transfer or arithmetic begins
  SimTime end{};
};

/// One rank's accelerator; used from one host thread. Streams are in order and run concurrently.
/// Spans given to an enqueue call stay valid until synchronize() has returned.
struct Device {
  virtual ~Device() = default;
  /// Asked of every kernel before any op runs.
  virtual bool supports(const Kernel& kernel) const = 0;

  /// The rank's one allocation: Role::arena bytes, aligned to 64 bytes or more.
  virtual std::byte* arena() = 0;
  virtual std::int64_t arena_bytes() const = 0;
  /// Role::host_arena bytes of host memory that its streams reach, for what is offloaded; null: the
  /// device has none, and runs no program that needs it.
  virtual std::byte* host_arena() { return nullptr; }
  /// Blocking access to a byte range of the arena from the host; only while all streams are idle.
  virtual Result<void> write(std::int64_t offset, std::span<const std::byte> from) = 0;
  virtual Result<void> read(std::int64_t offset, std::span<std::byte> to) = 0;
  virtual Result<void> fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) = 0;

  virtual void begin_step(const StepContext& context) = 0;
  /// Neither blocks nor waits; in order within op.stream. `args` are resolved arena addresses.
  virtual Result<void> enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) = 0;
  /// HostToDevice: `host` is read; DeviceToHost: `host` is written; both before synchronize() ends.
  virtual Result<void> enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                                    std::size_t bytes) = 0;
  /// All later work of `waiter` starts after `dependency` (an op enqueued in this step) has ended.
  virtual Result<void> wait(Stream waiter, OpId dependency) = 0;
  /// The only other call that blocks: all streams are idle after it, also when it fails. Returns
  /// the times of the step's ops, by ascending op; of a step that is not timed it may return none.
  virtual Result<std::vector<OpTime>> synchronize() = 0;
};

/// Transfers between the ranks of one run; one instance per rank, same stream semantics as Device.
struct Communicator {
  virtual ~Communicator() = default;
  /// `args` and `bytes`: address and size of each buffer of the op. Neither blocks nor waits.
  virtual Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                               std::span<const std::int64_t> bytes, DType dtype) = 0;
  /// Another rank has failed: every transfer that waits or will wait for a peer ends, and
  /// synchronize() of the rank's device returns an error. Callable from any thread, and twice.
  virtual void abort(const Error& reason) = 0;
};

}  // namespace lockstep
