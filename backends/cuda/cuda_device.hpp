// CudaDevice: one rank on a GPU. Each stream and event of the program is one of CUDA, and the arena
// is one allocation. Work is issued at once, unless its stream is behind a transfer whose other
// members have not come; then it is held back on the host (backends/cuda/node.hpp).
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <vector>

#include "backends/cuda/node.hpp"
#include "backends/cuda/step_graph.hpp"
#include "core/base/index_vector.hpp"
#include "core/run/device.hpp"

namespace lockstep::cuda {

class CudaDevice final : public Device {
 public:
  /// Program, driver and node must outlive the device. `host` runs Stream::Host; if it is null,
  /// there is no host memory for what is offloaded. Errors: OutOfMemory if arenas and scratch
  /// memory do not fit, Unsupported if `host` lacks a kernel, Device.
  static Result<std::unique_ptr<CudaDevice>> create(const Program& program, Rank rank,
                                                    Driver& driver, Node& node,
                                                    std::unique_ptr<HostCompute> host = nullptr);
  ~CudaDevice() override;  // waits for the GPU
  CudaDevice(const CudaDevice&) = delete;
  CudaDevice& operator=(const CudaDevice&) = delete;

  /// Launches steps that are not timed as one graph, from the second step on. The graph is recorded
  /// in the first such step. Call it before the first step, and only if all transfers are NCCL's,
  /// which can be recorded, too. Error Unsupported if the host takes part in a step, or if a step
  /// updates weights several times.
  Result<void> use_graphs();

  bool supports(const Kernel& kernel) const override { return driver_.supports(kernel); }
  std::byte* arena() override { return arena_; }
  std::int64_t arena_bytes() const override { return role_.arena.v; }
  std::byte* host_arena() override { return host_arena_; }
  Result<void> write(std::int64_t offset, std::span<const std::byte> from) override;
  Result<void> read(std::int64_t offset, std::span<std::byte> to) override;
  Result<void> fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) override;

  void begin_step(const StepContext& context) override;
  Result<void> enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) override;
  Result<void> enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                            std::size_t bytes) override;
  Result<void> enqueue_host_work(OpId id, const Op& op,
                                 std::function<Result<void>()> work) override;
  Result<void> wait(Stream waiter, OpId dependency) override;
  Result<std::vector<OpTime>> synchronize() override;

  /// The body of an op. It is called under the node's lock when everything before it on its stream
  /// has been issued.
  using Issue = std::function<Result<void>()>;
  /// Nor is it called before that of op `behind` was, on whatever stream, if one is given.
  Result<void> enqueue_work(OpId id, Stream stream, Issue issue, OpId behind = {});
  /// Enqueues a transfer with other ranks. `arrive` is called like an Issue; then the later work of
  /// the stream is held back until go_on().
  Result<void> enqueue_transfer(OpId id, Stream stream, Issue arrive);

  /// Enqueues a body that needs to know on the host what `prepare` has brought there, which is
  /// called like an Issue before it: it is called when the work that its stream has been given has
  /// ended.
  Result<void> enqueue_after(OpId id, Stream stream, Issue prepare, Issue issue, OpId behind);

  // For communicators, which hold the node's lock.
  Driver& driver() { return driver_; }
  Node& node() { return node_; }
  StreamHandle handle(Stream stream) { return queue(stream).handle; }
  enum Moment : std::uint8_t { Begin, Active, End };
  /// Records the event of a moment of an op in its stream if the step is timed; that of the end
  /// also in other steps if another stream waits for the op.
  Result<void> mark(OpId id, Moment moment);
  /// An event of this op that is reached when the work that its stream has so far has ended.
  Result<EventHandle> arrival(OpId id);
  /// Says that the transfer which held the stream back has been issued.
  void go_on(Stream stream, OpId id);
  Result<void> issue_ready();
  /// Pinned memory for the counts of an exchange of rows, those that go and then those that come.
  std::byte* counts_of(OpId id) { return staging_.at(id.v).pinned; }
  /// Lets the host make a check when the stream comes to it. Its error ends the run.
  Result<void> check_on_host(Stream stream, std::function<Result<void>()> check);

  /// Sets a function that is called while synchronize() waits for the GPU; its error ends the run.
  /// Without one, synchronize() blocks in the driver. A GPU does not say how far it has come, so a
  /// step is taken to hang, which is an error, too, after `timeout` seconds and ten times the
  /// longest step before; the first, in which much is made ready, after 60 timeouts. 0: never.
  void set_watch(std::function<Result<void>()> watch, double timeout = 0) {
    watch_ = std::move(watch);
    timeout_ = timeout;
  }
  /// Bytes of device memory beside the arena, for the scratch memory of kernels.
  std::int64_t scratch_bytes() const { return scratch_bytes_; }

 private:
  enum class Kind : std::uint8_t { Wait, Prepare, Work, Transfer };
  struct Item {
    OpId op;  // the op that runs, or that is waited for
    Kind kind = Kind::Work;
    Issue issue;
    bool after_stream = false;  // not before the GPU has ended what the stream was given
    OpId behind = {};           // not before this op has been issued; invalid: none
  };
  struct Queue {
    StreamHandle handle = nullptr;
    std::byte* scratch = nullptr;
    std::deque<Item> items;  // work that is held back
    bool held = false;       // whether the stream is behind a transfer
  };
  struct Staging {  // the pinned memory of a host copy
    std::byte* pinned = nullptr;
    void* host = nullptr;  // where a DeviceToHost of this step goes in the end
    std::size_t bytes = 0;
  };

  CudaDevice(const Program& program, Rank rank, Driver& driver, Node& node,
             std::unique_ptr<HostCompute> host);
  Result<void> set_up();
  Result<void> make_staging();
  Result<void> make_timers();
  Queue& queue(Stream stream) { return queues_[stream]; }
  Result<void> push(Stream stream, Item item);
  bool can_issue(const Queue& queue) const;
  bool waits_for_stream() const;
  Result<void> issue_front(Queue& queue);
  Result<void> run_function(OpId id, const Op& op, std::span<std::byte* const> args);
  Result<void> run_on_host(const Op& op, std::span<std::byte* const> args);
  Result<void> check_host_kernels() const;
  Result<void> blocking_copy(std::byte* to, const std::byte* from, std::size_t bytes);
  Result<void> launch_graph();
  Result<void> wait_for_gpu();
  Result<void> wait_for(StreamHandle stream);
  Result<void> check_for_hang();
  Result<std::vector<OpTime>> read_times();

  const Program& program_;
  const Rank rank_;
  const Role& role_;
  Driver& driver_;
  Node& node_;
  std::function<Result<void>()> watch_;
  using WaitTime = std::chrono::duration<double>;
  double timeout_ = 0;       // s
  WaitTime waited_{};        // for the GPU in this step, as far as this process ran meanwhile
  WaitTime longest_wait_{};  // of the steps that have ended
  std::chrono::steady_clock::time_point looked_;  // when waited_ was counted
  std::unique_ptr<HostCompute> host_;
  FirstError host_failure_;
  std::byte* arena_ = nullptr;
  std::byte* host_arena_ = nullptr;  // pinned; null if none is needed, or nothing computes there
  std::byte* transit_ = nullptr;     // pinned memory for write() and read()
  StreamHandle control_ = nullptr;
  std::int64_t scratch_bytes_ = 0;
  StepContext context_;
  std::unique_ptr<StepGraph> graph_;  // null if every step is issued op by op
  bool replaying_ = false;            // whether this step is a launch of graph_
  bool warm_ = false;                 // a step has been issued, so plans and connections exist

  IndexArray<Stream, Queue, kNumStreams> queues_;
  std::size_t held_back_ = 0;                            // items in the queues, and held transfers
  IndexVector<OpId, bool> issued_;                       // by op
  std::vector<OpId> order_;                              // the ops in the order of issuing them
  IndexVector<OpId, EventHandle> ends_;                  // by op; null if nothing waits for the op
  std::map<std::int32_t, EventHandle> arrivals_;         // by op
  IndexVector<OpId, std::array<EventHandle, 3>> times_;  // by op and Moment; empty if never timed
  std::map<std::int32_t, Staging> staging_;              // by op
  std::map<std::int32_t, std::vector<int>> fused_;       // by op: its epilogues(), if it has any
};

}  // namespace lockstep::cuda
