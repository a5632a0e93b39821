#include "backends/cpu/cpu_device.hpp"

#include <sched.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "backends/cpu/kernels/kernels.hpp"
#include "backends/cpu/one_core.hpp"
#include "core/base/huge_pages.hpp"
#include "core/base/index_vector.hpp"

namespace lockstep::cpu {
namespace {

constexpr std::align_val_t kArenaAlignment{kHugePage};

/// Lets the calling thread run as soon as it wakes, instead of after the slice (up to 3 ms) of a
/// kernel that computes on the same core. Linux takes this wish since 6.12; before 6.6 a thread
/// that wakes ran at once. It is granted to a thread that has used less than its part: one that
/// wakes, finds a mutex taken and sleeps again has used it. So whoever wakes a thread lets go of
/// the mutex before, here and where threads of several ranks meet.
void ask_for_short_slices() {
#if defined(__linux__) && defined(SYS_sched_setattr)
  constexpr std::uint64_t kShortest = 100'000;  // ns
  struct Attributes {  // sched_setattr(2), of which the C library has no declaration
    std::uint32_t size = sizeof(Attributes), policy = SCHED_OTHER;
    std::uint64_t flags = 0;
    std::int32_t nice = getpriority(PRIO_PROCESS, 0);
    std::uint32_t priority = 0;
    std::uint64_t runtime = kShortest, deadline = 0, period = 0;
  } attributes;
  if (sched_getscheduler(0) != SCHED_OTHER) return;
  // Without it everything works all the same.
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
#endif
}

}  // namespace

void CpuDevice::FreeArena::operator()(std::byte* arena) const {
  ::operator delete[](arena, kArenaAlignment);
}

Result<std::unique_ptr<CpuDevice>> CpuDevice::create(const Program& program, Rank rank, int threads,
                                                     RunContext& context) {
  const Role& role = program.role_of(rank);
  Arena arenas[2];
  for (const auto& [arena, size] :
       {std::pair(&arenas[0], role.arena), std::pair(&arenas[1], role.host_arena)}) {
    arena->reset(static_cast<std::byte*>(
        ::operator new[](static_cast<std::size_t>(size.v), kArenaAlignment, std::nothrow)));
    if (*arena == nullptr) {
      return Error{ErrorKind::OutOfMemory,
                   "rank " + std::to_string(rank) + ": this machine cannot give an arena of " +
                       std::to_string(size.v) + " B",
                   std::nullopt};
    }
    advise_huge_pages(arena->get(), static_cast<std::size_t>(size.v));
  }
  return std::unique_ptr<CpuDevice>(
      new CpuDevice(program, rank, threads, context, std::move(arenas[0]), std::move(arenas[1])));
}

CpuDevice::CpuDevice(const Program& program, Rank rank, int threads, RunContext& context,
                     Arena arena, Arena host_arena)
    : program_(program),
      rank_(rank),
      run_context_(context),
      arena_(std::move(arena)),
      host_arena_(std::move(host_arena)) {
  const Role& role = program.role_of(rank);
  arena_bytes_ = role.arena.v;
  states_.assign(role.ops.size(), OpState::None);
  times_.reserve(role.ops.size());
  for (const Op& op : role.ops) {
    std::unique_ptr<Queue>& queue = queues_[op.stream];
    if (queue == nullptr) {
      const bool computes = op.stream == Stream::Compute || op.stream == Stream::Host;
      queue = std::make_unique<Queue>(computes ? std::max(threads, 1) : 1);
      queue->computes = computes;
    }
  }
  try {
    for (std::unique_ptr<Queue>& queue : queues_) {
      if (queue == nullptr) continue;
      const bool computes = queue->computes;
      queue->thread = std::thread([this, computes, q = queue.get()] {
        if (!computes) ask_for_short_slices();
        work(*q);
      });
      if (threads <= 1)
        keep_on_one_core(queue->thread.native_handle(), rank, program.mesh.world_size());
    }
  } catch (...) {  // the system has no more threads: those that it gave have to end first
    end_threads();
    throw;
  }
}

CpuDevice::~CpuDevice() { end_threads(); }

void CpuDevice::end_threads() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  for (std::unique_ptr<Queue>& queue : queues_) {
    if (queue == nullptr || !queue->thread.joinable()) continue;
    queue->changed.notify_one();
    queue->thread.join();
  }
}

bool CpuDevice::supports(const Kernel& kernel) const { return cpu::supports(kernel); }

Result<void> CpuDevice::write(std::int64_t offset, std::span<const std::byte> from) {
  std::copy(from.begin(), from.end(), arena_.get() + offset);
  return {};
}

Result<void> CpuDevice::read(std::int64_t offset, std::span<std::byte> to) {
  std::copy_n(arena_.get() + offset, to.size(), to.begin());
  return {};
}

Result<void> CpuDevice::fill(std::int64_t offset, std::int64_t bytes, std::uint8_t value) {
  std::memset(arena_.get() + offset, value, static_cast<std::size_t>(bytes));
  return {};
}

void CpuDevice::begin_step(const StepContext& context) {
  const std::lock_guard lock(mutex_);
  context_ = context;
  std::fill(states_.begin(), states_.end(), OpState::None);
  times_.clear();
}

Result<void> CpuDevice::enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) {
  const Function& function = program_.function(op.function());
  ThreadTeam& team = queue(op.stream).team;
  return enqueue_task(id, op.stream, [this, &function, &op, &team, args](SimTime begin) {
    const StepContext context = context_of(program_, op, context_);
    const CountedDelay delay(*run_context_.activity, function);
    for (const Kernel& kernel : function.kernels) run_kernel(kernel, args, context, team);
    return begin;
  });
}

Result<void> CpuDevice::enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                                     std::size_t bytes) {
  const bool to_device = op.kind == OpKind::HostToDevice;
  return enqueue_task(id, op.stream, [=](SimTime begin) {
    std::memcpy(to_device ? buffer : host, to_device ? host : buffer, bytes);
    return begin;
  });
}

Result<void> CpuDevice::enqueue_host_work(OpId id, const Op& op,
                                          std::function<Result<void>()> work) {
  return enqueue_task(id, op.stream, [this, work = std::move(work)](SimTime begin) {
    const Counted occupied(run_context_.activity->occupied);  // it may wait for a disk
    if (const auto done = work(); !done) run_context_.fail(done.error());
    return begin;
  });
}

Result<void> CpuDevice::wait(Stream waiter, OpId dependency) {
  return push(waiter, {dependency, nullptr, 0});
}

Result<void> CpuDevice::enqueue_task(OpId id, Stream stream, Task task) {
  return push(stream, {id, std::move(task), 0});
}

Result<void> CpuDevice::push(Stream stream, Item item) {
  Queue& q = queue(stream);
  std::unique_lock lock(mutex_);
  OpState& state = states_[item.op];
  if (item.task == nullptr) {
    if (state == OpState::None) {
      return Error{ErrorKind::Internal,
                   "stream " + std::string(to_string(stream)) + " waits for %" +
                       std::to_string(item.op.v) + ", which is not enqueued",
                   std::nullopt};
    }
    if (state == OpState::Done) return {};
  } else {
    state = OpState::Queued;
    item.time = times_.size();
    times_.push_back({item.op, {}, {}, {}});
  }
  q.items.push_back(std::move(item));
  ++in_flight_;
  lock.unlock();
  q.changed.notify_one();
  return {};
}

Result<std::vector<OpTime>> CpuDevice::synchronize() {
  std::unique_lock lock(mutex_);
  idle_.wait(lock, [this] { return in_flight_ == 0; });
  if (auto healthy = run_context_.failure().result(); !healthy) return healthy.error();
  return times_;
}

OpTime CpuDevice::run(const Item& item) {
  OpTime time{item.op, run_context_.now(), {}, {}};
  time.active = time.begin;
  if (run_context_.failure().is_set()) {  // the op is left out
    time.end = time.begin;
    return time;
  }
  FlightRecord& flight = run_context_.activity->flight;
  const std::uint64_t number = flight.begin(rank_, item.op, context_.step, time.begin);
  try {
    time.active = std::max(time.begin, item.task(time.begin));
  } catch (const std::exception& exception) {
    run_context_.fail(Error{ErrorKind::Device,
                            "%" + std::to_string(item.op.v) + " failed: " + exception.what(),
                            std::nullopt});
  }
  time.end = run_context_.now();
  // What a failure has cut off stays in the record as it was.
  if (!run_context_.failure().is_set()) flight.end(number, time.end);
  return time;
}

void CpuDevice::work(Queue& q) {
  std::unique_lock lock(mutex_);
  for (;;) {
    q.changed.wait(lock, [&] { return stop_ || !q.items.empty(); });
    if (q.items.empty()) return;
    const Item item = std::move(q.items.front());
    q.items.pop_front();
    if (item.task == nullptr) {
      q.waits_for = item.op;
      q.changed.wait(lock, [&] { return states_[item.op] == OpState::Done; });
      q.waits_for = {};
    } else {
      lock.unlock();
      const OpTime time = run(item);
      lock.lock();
      times_[item.time] = time;
      states_[item.op] = OpState::Done;
      std::vector<Queue*> waiting;
      for (std::unique_ptr<Queue>& other : queues_) {
        if (other != nullptr && other->waits_for == item.op) waiting.push_back(other.get());
      }
      lock.unlock();
      for (Queue* other : waiting) other->changed.notify_one();
      lock.lock();
    }
    if (--in_flight_ == 0) idle_.notify_all();
  }
}

}  // namespace lockstep::cpu
