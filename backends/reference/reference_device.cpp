#include "backends/reference/reference_device.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <thread>
#include <utility>

#include "backends/reference/kernels/kernels.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::reference {
Result<std::unique_ptr<ReferenceDevice>> ReferenceDevice::create(const Program& program, Rank rank,
                                                                 RunContext& context) {
  try {
    return std::unique_ptr<ReferenceDevice>(new ReferenceDevice(program, rank, context));
  } catch (const std::bad_alloc&) {
    return Error{ErrorKind::OutOfMemory,
                 "rank " + std::to_string(rank) + ": this machine cannot give an arena of " +
                     std::to_string(program.role_of(rank).arena.v) + " B",
                 std::nullopt};
  }
}

ReferenceDevice::ReferenceDevice(const Program& program, Rank rank, RunContext& context)
    : program_(program),
      run_context_(context),
      arena_bytes_(program.role_of(rank).arena.v),
      arena_(to_size(ceil_div(arena_bytes_, sizeof(Line)))),
      host_arena_(to_size(ceil_div(program.role_of(rank).host_arena.v, kDriveBlock))),
      states_(program.role_of(rank).ops.size()),
      times_(states_.size()) {}

bool ReferenceDevice::supports(const Kernel& kernel) const { return reference::supports(kernel); }

Result<void> ReferenceDevice::write(std::int64_t offset, std::span<const std::byte> from) {
  std::copy(from.begin(), from.end(), arena() + offset);
  return {};
}

Result<void> ReferenceDevice::read(std::int64_t offset, std::span<std::byte> to) {
  std::copy_n(arena() + offset, to.size(), to.begin());
  return {};
}

Result<void> ReferenceDevice::fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) {
  std::fill_n(arena() + offset, bytes, std::byte{value});
  return {};
}

void ReferenceDevice::begin_step(const StepContext& context) {
  context_ = context;
  std::fill(states_.begin(), states_.end(), State::NotEnqueued);
}

Result<void> ReferenceDevice::enqueue_call(OpId id, const Op& op,
                                           std::span<std::byte* const> args) {
  return enqueue_task(id, op.stream, [this, &op, args](OpTime&) {
    const StepContext context = context_of(program_, op, context_);
    const Function& function = program_.function(op.function());
    const CountedDelay delay(*run_context_.activity, function);
    for (const Kernel& kernel : function.kernels) {
      run_kernel(kernel, args, context);
    }
    return true;
  });
}

Result<void> ReferenceDevice::enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                                           std::size_t bytes) {
  const bool to_device = op.kind == OpKind::HostToDevice;
  return enqueue_task(id, op.stream, [=](OpTime&) {
    std::memcpy(to_device ? buffer : host, to_device ? host : buffer, bytes);
    return true;
  });
}

Result<void> ReferenceDevice::enqueue_host_work(OpId id, const Op& op,
                                                std::function<Result<void>()> work) {
  return enqueue_task(id, op.stream, [this, work = std::move(work)](OpTime&) {
    if (const auto done = work(); !done) run_context_.fail(done.error());
    return true;
  });
}

Result<void> ReferenceDevice::wait(Stream waiter, OpId dependency) {
  if (states_[dependency] == State::NotEnqueued) {
    return Error{ErrorKind::Internal,
                 "stream " + std::string(to_string(waiter)) + " waits for %" +
                     std::to_string(dependency.v) + ", which is not enqueued",
                 std::nullopt};
  }
  queues_[waiter].push_back({dependency, nullptr});
  return {};
}

Result<void> ReferenceDevice::enqueue_task(OpId id, Stream stream, Task task) {
  states_[id] = State::Enqueued;
  queues_[stream].push_back({id, std::move(task)});
  return {};
}

Result<std::vector<OpTime>> ReferenceDevice::synchronize() {
  const auto empty = [](const Queue& queue) { return queue.empty(); };
  while (!std::all_of(queues_.begin(), queues_.end(), empty)) {
    bool progress = false;
    for (Queue& queue : queues_) progress |= advance(queue);
    if (auto healthy = run_context_.failure().result(); !healthy) {
      for (Queue& queue : queues_) queue.clear();
      return healthy.error();
    }
    // Every stream waits for a peer, so this thread leaves the processor to the peers' threads.
    if (!progress) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
  std::vector<OpTime> times;
  for (std::size_t i = 0; i < times_.size(); ++i) {
    if (states_[i] == State::Ended) times.push_back(times_[i]);
  }
  return times;
}

bool ReferenceDevice::advance(Queue& queue) {
  if (queue.empty()) return false;
  Item& item = queue.front();
  const bool done = item.task == nullptr ? states_[item.op] == State::Ended : run(item);
  if (done) queue.pop_front();
  return done;
}

bool ReferenceDevice::run(Item& item) {
  OpTime& time = times_[item.op];
  if (!std::exchange(item.begun, true)) {
    const SimTime now = run_context_.now();
    time = {item.op, now, now, now};
  }
  try {
    if (!item.task(time)) return false;
  } catch (const std::exception& exception) {
    run_context_.fail(Error{ErrorKind::Device,
                            "%" + std::to_string(item.op.v) + " failed: " + exception.what(),
                            std::nullopt});
  }
  time.end = run_context_.now();
  states_[item.op] = State::Ended;
  return true;
}

}  // namespace lockstep::reference
