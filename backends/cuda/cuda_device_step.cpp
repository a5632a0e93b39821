// Gives a step to the GPU, op by op or as a graph, and waits for its end.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <thread>
#include <utility>

#include "backends/cuda/cuda_device.hpp"

namespace lockstep::cuda {
namespace {

constexpr std::chrono::microseconds kWatchInterval{50};
// A wait counts between two looks at most so long: a process that was stopped blames nobody.
constexpr std::chrono::seconds kMostBetweenLooks{1};
constexpr double kFirstStep = 60;  // timeouts
constexpr double kLongestSteps = 10;

}  // namespace

void CudaDevice::begin_step(const StepContext& context) {
  if (context.timed) {
    if (const auto started = node_.start_clock(context.global_step()); !started)
      node_.fail(started.error());
  }
  const std::lock_guard lock(node_.mutex());
  context_ = context;
  std::fill(issued_.begin(), issued_.end(), false);
  order_.clear();
  if (context.timed && times_.empty()) {
    if (const auto made = make_timers(); !made) node_.fail_locked(made.error());
  }
  replaying_ = graph_ && graph_->recorded() && !context.timed;
  if (graph_ && warm_ && !replaying_ && !context.timed) {
    if (const auto begun = graph_->begin(); !begun) node_.fail_locked(begun.error());
  }
  warm_ = true;
}

/// Makes the events before the step that they time, so that making them is no part of it.
Result<void> CudaDevice::make_timers() {
  times_.resize(role_.ops.size());
  for (auto& moments : times_) {
    for (const Moment moment : {Begin, End}) {
      const auto made = driver_.create_event(Timing::On);
      if (!made) return made.error();
      moments[moment] = *made;
    }
  }
  return {};
}

Result<void> CudaDevice::enqueue_call(OpId id, const Op& op, std::span<std::byte* const> args) {
  return enqueue_work(id, op.stream, [this, id, &op, args] {
    return op.stream == Stream::Host ? run_on_host(op, args) : run_function(id, op, args);
  });
}

/// Runs a function on the host. Its memory is touched by copies and the host only, so that the GPU
/// goes on with everything that does not wait for it.
Result<void> CudaDevice::run_on_host(const Op& op, std::span<std::byte* const> args) {
  const Function& function = program_.function(op.function());
  const StepContext context = context_of(program_, op, context_);
  return driver_.run_on_host(handle(op.stream), [this, &function, args, context] {
    if (node_.failure().is_set() || host_failure_.is_set()) return;
    try {
      for (const Kernel& kernel : function.kernels) host_->run(kernel, args, context);
    } catch (const std::exception& exception) {
      // It is not given to the node, because a thread that holds the node's lock may wait for this.
      host_failure_.set(Error{ErrorKind::Device,
                              function.name + " on the host: " + exception.what(), std::nullopt});
    }
  });
}

Result<void> CudaDevice::run_function(OpId id, const Op& op, std::span<std::byte* const> args) {
  const Queue& q = queue(op.stream);
  const auto address = [&](const Operand& operand) -> std::byte* {
    if (!operand.present()) return nullptr;
    return args[to_size(operand.formal)] + operand.offset;
  };
  const StepContext context = context_of(program_, op, context_);
  const auto call_of = [&](const Kernel& kernel) {
    KernelCall call{&kernel, {}, {}, q.scratch, context};
    if (graph_ && graph_->recording()) call.context_at = graph_->context();
    std::transform(kernel.in.begin(), kernel.in.end(), call.in.begin(), address);
    std::transform(kernel.out.begin(), kernel.out.end(), call.out.begin(), address);
    return call;
  };
  const std::vector<Kernel>& kernels = program_.function(op.function()).kernels;
  const auto fused = fused_.find(id.v);
  std::vector<bool> done(kernels.size(), false);  // kernels that ran in an epilogue
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    if (done[i]) continue;
    const KernelCall call = call_of(kernels[i]);
    const int next = fused != fused_.end() ? fused->second[i] : -1;
    Result<bool> both = false;
    if (next >= 0) {
      both = driver_.launch_fused(q.handle, call, call_of(kernels[to_size(next)]));
    }
    Result<void> launched = both ? Result<void>() : both.error();
    if (both && !*both) launched = driver_.launch(q.handle, call);
    if (!launched) {
      Error error = launched.error();
      error.message = describe(program_, role_, id) + ", " +
                      std::string(info(kernels[i].kind).name) + ": " + error.message;
      return error;
    }
    if (*both) done[to_size(next)] = true;
  }
  return {};
}

Result<void> CudaDevice::enqueue_copy(OpId id, const Op& op, std::byte* buffer, void* host,
                                      std::size_t bytes) {
  const bool to_device = op.kind == OpKind::HostToDevice;
  auto* const at = static_cast<std::byte*>(host);
  if (op.moves_memory()) {  // both sides are pinned already
    return enqueue_work(id, op.stream, [this, &op, to_device, at, buffer, bytes] {
      return driver_.copy(handle(op.stream), to_device ? buffer : at, to_device ? at : buffer,
                          static_cast<std::int64_t>(bytes));
    });
  }
  Staging& staging = staging_.at(id.v);
  if (bytes != staging.bytes) {
    return Error{ErrorKind::Internal,
                 describe(program_, role_, id) + " copies " + std::to_string(bytes) +
                     " B and not " + std::to_string(staging.bytes),
                 std::nullopt};
  }
  if (to_device) std::memcpy(staging.pinned, host, bytes);
  staging.host = to_device ? nullptr : host;
  std::byte* pinned = staging.pinned;
  return enqueue_work(id, op.stream, [this, &op, to_device, pinned, buffer, bytes] {
    return driver_.copy(handle(op.stream), to_device ? buffer : pinned, to_device ? pinned : buffer,
                        static_cast<std::int64_t>(bytes));
  });
}

Result<void> CudaDevice::enqueue_host_work(OpId id, const Op& op,
                                           std::function<Result<void>()> work) {
  return enqueue_work(id, op.stream, [this, &op, work = std::move(work)] {
    return driver_.run_on_host(handle(op.stream), [this, work] {
      if (node_.failure().is_set() || host_failure_.is_set()) return;
      if (const auto done = work(); !done) host_failure_.set(done.error());
    });
  });
}

Result<void> CudaDevice::wait(Stream waiter, OpId dependency) {
  return push(waiter, {dependency, Kind::Wait, nullptr});
}

Result<void> CudaDevice::enqueue_work(OpId id, Stream stream, Issue issue, OpId behind) {
  return push(stream, {id, Kind::Work, std::move(issue), false, behind});
}

Result<void> CudaDevice::enqueue_transfer(OpId id, Stream stream, Issue arrive) {
  return push(stream, {id, Kind::Transfer, std::move(arrive)});
}

Result<void> CudaDevice::push(Stream stream, Item item) {
  if (item.kind == Kind::Wait && ends_[item.op] == nullptr) {
    return Error{ErrorKind::Internal,
                 "stream " + std::string(to_string(stream)) + " waits for %" +
                     std::to_string(item.op.v) + ", which the program does not let it",
                 std::nullopt};
  }
  if (replaying_) return {};  // the graph contains the op
  const std::lock_guard lock(node_.mutex());
  if (node_.failure().is_set()) return {};  // synchronize() returns the error
  queue(stream).items.push_back(std::move(item));
  ++held_back_;
  node_.make_ready(*this);
  node_.pump();
  return {};
}

Result<void> CudaDevice::enqueue_after(OpId id, Stream stream, Issue prepare, Issue issue,
                                       OpId behind) {
  auto prepared = push(stream, {id, Kind::Prepare, std::move(prepare)});
  return prepared ? push(stream, {id, Kind::Work, std::move(issue), true, behind}) : prepared;
}

Result<void> CudaDevice::check_on_host(Stream stream, std::function<Result<void>()> check) {
  return driver_.run_on_host(handle(stream), [this, check = std::move(check)] {
    if (const auto well = check(); !well) host_failure_.set(well.error());
  });
}

bool CudaDevice::can_issue(const Queue& q) const {
  if (q.items.empty() || q.held) return false;
  const Item& front = q.items.front();
  if (front.behind.valid() && !issued_[front.behind]) return false;
  if (front.after_stream) {
    const auto idle = driver_.idle(q.handle);
    return !idle || *idle;  // after an error the call that follows says so
  }
  return front.kind != Kind::Wait || issued_[front.op];
}

bool CudaDevice::waits_for_stream() const {
  return std::any_of(queues_.begin(), queues_.end(), [](const Queue& q) {
    return !q.items.empty() && q.items.front().after_stream;
  });
}

Result<void> CudaDevice::issue_ready() {
  for (bool moved = true; moved;) {
    moved = false;
    for (Queue& q : queues_) {
      for (; can_issue(q); moved = true) {
        if (auto done = issue_front(q); !done) return done;
      }
    }
  }
  if (held_back_ == 0) node_.changed().notify_all();
  return {};
}

Result<void> CudaDevice::issue_front(Queue& q) {
  const Item item = std::move(q.items.front());
  q.items.pop_front();
  --held_back_;
  if (item.kind == Kind::Wait) return driver_.wait(q.handle, ends_[item.op]);
  if (item.kind == Kind::Prepare) return item.issue();
  order_.push_back(item.op);
  if (auto done = mark(item.op, Begin); !done) return done;
  if (item.kind == Kind::Transfer) {
    q.held = true;
    ++held_back_;
    return item.issue();
  }
  if (auto done = item.issue(); !done) return done;
  if (auto done = mark(item.op, End); !done) return done;
  issued_[item.op] = true;
  return {};
}

void CudaDevice::go_on(Stream stream, OpId id) {
  queue(stream).held = false;
  --held_back_;
  issued_[id] = true;
  node_.make_ready(*this);
}

Result<void> CudaDevice::mark(OpId id, Moment moment) {
  const StreamHandle stream = handle(role_.op(id).stream);
  if (context_.timed) {
    EventHandle& event = times_[id][moment];
    if (event == nullptr) {
      const auto made = driver_.create_event(Timing::On);
      if (!made) return made.error();
      event = *made;
    }
    if (auto done = driver_.record(event, stream); !done) return done;
  }
  if (moment != End || ends_[id] == nullptr) return {};
  // This comes last, so that nobody goes on before the time is taken.
  return driver_.record(ends_[id], stream);
}

Result<EventHandle> CudaDevice::arrival(OpId id) {
  EventHandle& event = arrivals_[id.v];
  if (event == nullptr) {
    const auto made = driver_.create_event(Timing::Off);
    if (!made) return made.error();
    event = *made;
  }
  if (auto done = driver_.record(event, handle(role_.op(id).stream)); !done) return done.error();
  return event;
}

/// Ends the recording if this step is recorded, and launches the graph.
Result<void> CudaDevice::launch_graph() {
  const bool well = !node_.failure().is_set();
  if (graph_->recording()) {
    if (auto ended = graph_->end(well); !ended) return ended;
    replaying_ = true;
  }
  return replaying_ && well ? graph_->launch(context_) : Result<void>();
}

Result<void> CudaDevice::wait_for_gpu() {
  if (replaying_) return wait_for(graph_->origin());
  for (const Queue& q : queues_) {
    if (q.handle == nullptr) continue;
    if (auto done = wait_for(q.handle); !done) return done;
  }
  return {};
}

Result<void> CudaDevice::wait_for(StreamHandle stream) {
  while (watch_) {
    const auto idle = driver_.idle(stream);
    if (!idle) return idle.error();
    if (*idle) break;
    if (auto well = watch_(); !well) return well;
    if (auto well = check_for_hang(); !well) return well;
    std::this_thread::sleep_for(kWatchInterval);
  }
  return driver_.synchronize(stream);
}

Result<void> CudaDevice::check_for_hang() {
  const auto now = std::chrono::steady_clock::now();
  waited_ += std::min<WaitTime>(now - std::exchange(looked_, now), kMostBetweenLooks);
  const WaitTime most = longest_wait_ > WaitTime{}
                            ? WaitTime(timeout_) + kLongestSteps * longest_wait_
                            : WaitTime(kFirstStep * timeout_);
  if (timeout_ <= 0 || waited_ <= most) return {};
  std::string busy;
  for (const Stream stream : decltype(queues_)::ids()) {
    const StreamHandle handle = queue(stream).handle;
    if (handle == nullptr) continue;
    const auto idle = driver_.idle(handle);
    if (!idle) return idle.error();
    if (!*idle) busy += " " + std::string(to_string(stream));
  }
  char times[96];
  std::snprintf(times, sizeof times, "for %.1f s (the longest before: %.1f s)", waited_.count(),
                longest_wait_.count());
  return Error{ErrorKind::Device,
               "rank " + std::to_string(rank_) + ": its GPU has not ended step " +
                   std::to_string(context_.global_step()) + " " + times +
                   ", so it is taken to hang; its streams that are not idle:" + busy +
                   " (LOCKSTEP_TIMEOUT_SECONDS)",
               std::nullopt};
}

Result<std::vector<OpTime>> CudaDevice::synchronize() {
  {
    std::unique_lock lock(node_.mutex());
    const auto done = [&] { return held_back_ == 0 || node_.failure().is_set(); };
    while (!done()) {
      if (!waits_for_stream()) {
        node_.changed().wait(lock, [&] { return done() || waits_for_stream(); });
        continue;
      }
      // Nobody is told when the GPU has ended something, so it is asked again and again.
      node_.changed().wait_for(lock, kWatchInterval);
      if (const auto well = watch_ ? watch_() : Result<void>(); !well)
        node_.fail_locked(well.error());
      node_.make_ready(*this);
      node_.pump();
    }
    if (node_.failure().is_set()) {
      for (Queue& q : queues_) {
        q.items.clear();
        q.held = false;
      }
      held_back_ = 0;
    }
  }
  if (graph_) {
    if (const auto launched = launch_graph(); !launched) node_.fail(launched.error());
  }
  waited_ = {};
  looked_ = std::chrono::steady_clock::now();
  if (const auto idle = wait_for_gpu(); !idle) node_.fail(idle.error());
  longest_wait_ = std::max(longest_wait_, waited_);
  if (const auto well = host_failure_.result(); !well) node_.fail(well.error());
  if (const auto well = node_.failure().result(); !well) return well.error();
  for (auto& [op, staging] : staging_) {
    if (staging.host != nullptr) std::memcpy(staging.host, staging.pinned, staging.bytes);
  }
  return read_times();
}

Result<std::vector<OpTime>> CudaDevice::read_times() {
  std::vector<OpTime> times;
  if (!context_.timed) return times;
  std::sort(order_.begin(), order_.end(), [](OpId a, OpId b) { return a.v < b.v; });
  for (const OpId op : order_) {
    std::array<SimTime, 3> at{};
    for (const Moment moment : {Begin, Active, End}) {
      EventHandle event = times_[op][moment];
      if (event == nullptr) event = times_[op][Begin];  // the op was active from its begin
      const auto time = node_.time_of(event);
      if (!time) return time.error();
      at[moment] = *time;
    }
    times.push_back({op, at[Begin], at[Active], at[End]});
  }
  return times;
}

}  // namespace lockstep::cuda
