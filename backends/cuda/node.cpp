#include "backends/cuda/node.hpp"

#include "backends/cuda/cuda_device.hpp"

namespace lockstep::cuda {

Node::~Node() {
  if (origin_ != nullptr) driver_.release(origin_);
  if (clock_stream_ != nullptr) driver_.release(clock_stream_);
}

void Node::pump() {
  while (!ready_.empty()) {
    CudaDevice* device = ready_.front();
    ready_.pop_front();
    if (const auto issued = device->issue_ready(); !issued) fail_locked(issued.error());
  }
}

void Node::fail_locked(const Error& error) {
  run_.fail(error);
  changed_.notify_all();
}

void Node::fail(const Error& error) {
  run_.fail(error);  // before the lock, whose holder may wait for a peer and is thus released
  const std::lock_guard lock(mutex_);
  changed_.notify_all();
}

Result<void> Node::start_clock(int step) {
  const std::lock_guard lock(clock_mutex_);
  if (clock_step_ == step) return {};
  if (clock_stream_ == nullptr) {
    const auto stream = driver_.create_stream(Priority::High);
    if (!stream) return stream.error();
    clock_stream_ = *stream;
    const auto event = driver_.create_event(Timing::On);
    if (!event) return event.error();
    origin_ = *event;
  }
  if (auto done = driver_.record(origin_, clock_stream_); !done) return done;
  if (auto done = driver_.synchronize(clock_stream_); !done) return done;
  origin_time_ = now();
  clock_step_ = step;
  return {};
}

Result<SimTime> Node::time_of(EventHandle event) {
  const auto since = driver_.elapsed(origin_, event);
  if (!since) return since.error();
  return origin_time_ + to_sim_time(*since);
}

}  // namespace lockstep::cuda
