// CpuDevice: one rank on this machine's cores. Every stream that the rank's role uses is a thread
// with a queue; the compute stream's thread leads the rank's thread team.
#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "core/base/index_vector.hpp"
#include "core/base/thread_team.hpp"
#include "core/run/device.hpp"
#include "core/run/run_context.hpp"

namespace lockstep::cpu {

class CpuDevice final : public Device {
 public:
  /// `program` and `context` must outlive the device. Error OutOfMemory if the arena cannot be
  /// allocated.
  static Result<std::unique_ptr<CpuDevice>> create(const Program& program, Rank rank, int threads,
                                                   RunContext& context);
  ~CpuDevice() override;  // runs what is still queued
  CpuDevice(const CpuDevice&) = delete;
  CpuDevice& operator=(const CpuDevice&) = delete;

  bool supports(const Kernel& kernel) const override;
  std::byte* arena() override { return arena_.get(); }
  std::int64_t arena_bytes() const override { return arena_bytes_; }
  std::byte* host_arena() override { return host_arena_.get(); }
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

  /// The body of an op. It is called on the thread of the op's stream with the time at which the op
  /// began, and returns the time at which it became active. It is not called once the run has
  /// failed.
  using Task = std::function<SimTime(SimTime begin)>;
  Result<void> enqueue_task(OpId id, Stream stream, Task task);

 private:
  enum class OpState : std::uint8_t { None, Queued, Done };
  struct Item {
    OpId op;  // the op that runs; without a task, the op that is waited for
    Task task;
    std::size_t time = 0;  // index into times_
  };
  struct Queue {
    explicit Queue(int threads) : team(threads) {}
    ThreadTeam team;
    bool computes = false;
    std::deque<Item> items;
    std::condition_variable changed;  // of a new item, or the end of the op waited for
    OpId waits_for;
    std::thread thread;
  };
  struct FreeArena {
    void operator()(std::byte* arena) const;
  };
  using Arena = std::unique_ptr<std::byte[], FreeArena>;

  CpuDevice(const Program& program, Rank rank, int threads, RunContext& context, Arena arena,
            Arena host_arena);
  Queue& queue(Stream stream) { return *queues_[stream]; }
  Result<void> push(Stream stream, Item item);
  void work(Queue& queue);
  void end_threads();
  OpTime run(const Item& item);

  const Program& program_;
  Rank rank_;
  RunContext& run_context_;
  Arena arena_, host_arena_;
  std::int64_t arena_bytes_ = 0;
  StepContext context_;  // written between steps only
  std::mutex mutex_;     // guards everything below except the queues' teams
  std::condition_variable idle_;
  IndexVector<OpId, OpState> states_;  // by op
  std::vector<OpTime> times_;          // in the order of enqueueing
  std::size_t in_flight_ = 0;          // items queued or running
  bool stop_ = false;
  // null if the role has no such stream
  IndexArray<Stream, std::unique_ptr<Queue>, kNumStreams> queues_;
};

}  // namespace lockstep::cpu
