// ReferenceDevice: one rank, run by the thread that calls synchronize(). It is as small as a device
// can be, and the example of docs/device.md.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/run/device.hpp"
#include "core/run/run_context.hpp"

namespace lockstep::reference {

/// Streams are queues. Enqueueing only fills them; synchronize() runs what is at the front of a
/// queue and can go on, one op at a time, until all queues are empty. An op that has to wait, such
/// as a transfer whose peers are not there yet, therefore never holds up another stream.
class ReferenceDevice final : public Device {
 public:
  /// `program` and `context` must outlive the device. Error OutOfMemory if the arena cannot be
  /// allocated.
  static Result<std::unique_ptr<ReferenceDevice>> create(const Program& program, Rank rank,
                                                         RunContext& context);

  bool supports(const Kernel& kernel) const override;
  std::byte* arena() override { return arena_.data()->bytes; }
  std::int64_t arena_bytes() const override { return arena_bytes_; }
  std::byte* host_arena() override { return host_arena_.data()->bytes; }
  Result<void> write(std::int64_t offset, std::span<const std::byte> from) override;
  Result<void> read(std::int64_t offset, std::span<std::byte> to) override;
  Result<void> fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) override;

  bool reads_beside_step() const override { return true; }
  void begin_step(const StepContext& context) override;
  Result<void> enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) override;
  Result<void> enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                            std::size_t bytes) override;
  Result<void> enqueue_host_work(OpId id, const Op& op,
                                 std::function<Result<void>()> work) override;
  Result<void> wait(Stream waiter, OpId dependency) override;
  Result<std::vector<OpTime>> synchronize() override;

  /// What an op does. It is called when the op is at the front of its stream, and again until it
  /// returns true, which says that the op has ended. It may change time.active.
  using Task = std::function<bool(OpTime& time)>;
  Result<void> enqueue_task(OpId id, Stream stream, Task task);

 private:
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  struct alignas(kDriveBlock) Block {
    std::byte bytes[kDriveBlock];
  };
  struct Item {
    OpId op;    // the op that runs, or that is waited for
    Task task;  // empty for a wait
    bool begun = false;
  };
  using Queue = std::deque<Item>;
  enum class State : std::uint8_t { NotEnqueued, Enqueued, Ended };

  ReferenceDevice(const Program& program, Rank rank, RunContext& context);
  /// Lets the item at the front of the queue go on; false if it cannot.
  bool advance(Queue& queue);
  bool run(Item& item);

  const Program& program_;
  RunContext& run_context_;
  std::int64_t arena_bytes_;
  std::vector<Line> arena_;
  std::vector<Block> host_arena_;
  StepContext context_;
  IndexArray<Stream, Queue, kNumStreams> queues_;
  IndexVector<OpId, State> states_;  // by op
  IndexVector<OpId, OpTime> times_;  // by op
};

}  // namespace lockstep::reference
