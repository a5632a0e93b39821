// Device and Communicator: what a real backend provides. One Device is one rank's accelerator with
// its arena; the executor (core/run/executor.hpp) walks the program and enqueues.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "core/base/result.hpp"
#include "core/ir/program.hpp"

namespace lockstep {

/// What changes from step to step and is therefore not in the program.
struct StepContext {
  int step = 0;  // 0-based count of updates: AdamW's t is step + 1 (see context_of)
  double lr = 0;
  bool timed = true;       // whether synchronize() must return the times of the step's ops
  std::uint64_t seed = 0;  // the run's seed, for kernels that round at random
  int skipped = 0;         // steps before this one that a loss scale skipped: they updated nothing
  double loss_scale = 1;   // of this step, what HostData::LossScale brings
  int layer = -1;          // of the op (see context_of), for dropout
  bool synchronizes = false;  // whether the step ends with the ops of phase S
  int global_step() const { return step + skipped; }
};

/// The context of one op, which knows its layer. In a program that updates the weights several
/// times in a step (PipeDream), every update counts as a step of its own, numbered by the op's
/// microbatch.
inline StepContext context_of(const Program& program, const Op& op, StepContext step) {
  step.layer = op.layer;
  if (program.updates_per_step == 1) return step;
  step.step = step.step * program.updates_per_step + std::max(op.microbatch, 0);
  return step;
}

/// Start and end of an op on the device, on the clock that all ranks of the run share.
struct OpTime {
  OpId op;
  SimTime begin{};   // the op is at the front of its stream and its dependencies have ended
  SimTime active{};  // all peers have arrived, so that the transfer or the arithmetic begins
  SimTime end{};
};

/// One rank's accelerator; used from one host thread. Ops of one stream run in order, those of
/// different streams concurrently. Memory and spans given to an enqueue call stay valid until
/// synchronize() has returned.
struct Device {
  virtual ~Device() = default;
  /// Whether the device can run `kernel`; asked of every kernel before any op runs.
  virtual bool supports(const Kernel& kernel) const = 0;

  /// The rank's one allocation: Role::arena bytes, aligned to 64 bytes or more.
  virtual std::byte* arena() = 0;
  virtual std::int64_t arena_bytes() const = 0;
  /// Role::host_arena bytes of host memory that the device's streams can reach, for what is
  /// offloaded, aligned to kDriveBlock. A device that returns null has none and runs no program
  /// that needs it.
  virtual std::byte* host_arena() { return nullptr; }
  /// The next three give the host access to a byte range of the arena. They block, and may be
  /// called only while all streams are idle.
  virtual Result<void> write(std::int64_t offset, std::span<const std::byte> from) = 0;
  virtual Result<void> read(std::int64_t offset, std::span<std::byte> to) = 0;
  virtual Result<void> fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) = 0;
  /// Whether read() may be called at any time and from any thread for bytes that no op writes.
  virtual bool reads_beside_step() const { return false; }

  virtual void begin_step(const StepContext& context) = 0;
  /// Puts a call of a function on op.stream, behind what is there; never blocks. `args` are the
  /// addresses of the op's buffers in the arena.
  virtual Result<void> enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) = 0;
  /// Puts a copy on op.stream. HostToDevice reads `host`, DeviceToHost writes it, at any time
  /// before synchronize() returns.
  virtual Result<void> enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                                    std::size_t bytes) = 0;
  /// Puts work of the host on op.stream, behind what is there, such as reading from a drive, of
  /// programs that have one; never blocks. The work may wait; its error ends the run.
  // NOLINTNEXTLINE(performance-unnecessary-value-param): others keep the work
  virtual Result<void> enqueue_host_work(OpId, const Op&, std::function<Result<void>()>) {
    return Error{
        ErrorKind::Unsupported,
        "this device runs no work of the host on its streams: what lies on a drive needs it",
        std::nullopt};
  }
  /// All later work of `waiter` starts after `dependency` (an op enqueued in this step) has ended.
  virtual Result<void> wait(Stream waiter, OpId dependency) = 0;
  /// Blocks until all streams are idle; they are so after an error, too. Returns the times of the
  /// step's ops, by ascending op; for a step that is not timed it may return none.
  virtual Result<std::vector<OpTime>> synchronize() = 0;
};

/// Transfers between the ranks of one run. Each rank has its own instance, which puts transfers on
/// the same streams as the rank's Device.
struct Communicator {
  virtual ~Communicator() = default;
  /// Puts a collective, send or receive on op.stream; never blocks. `args` and `bytes` are address
  /// and size of each of the op's buffers.
  virtual Result<void> enqueue(OpId id, const Op& op, std::span<std::byte* const> args,
                               std::span<const std::int64_t> bytes, DType dtype) = 0;
  /// Called when another rank has failed: every transfer that waits or will wait for a peer ends,
  /// and synchronize() of the rank's device returns an error. Any thread may call it, also
  /// repeatedly.
  virtual void abort(const Error& reason) = 0;
};

}  // namespace lockstep
