#include "core/run/crew.hpp"

namespace lockstep {

Crew::Crew(std::size_t size) {
  threads_.reserve(size);
  for (std::size_t i = 0; i < size; ++i) threads_.emplace_back([this, i] { work(i); });
}

Crew::~Crew() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  start_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::run(const std::function<void(std::size_t)>& body) {
  std::unique_lock lock(mutex_);
  body_ = &body;
  busy_ = threads_.size();
  ++generation_;
  start_.notify_all();
  finish_.wait(lock, [this] { return busy_ == 0; });
  body_ = nullptr;
}

void Crew::work(std::size_t index) {
  long done = 0;
  std::unique_lock lock(mutex_);
  for (;;) {
    start_.wait(lock, [&] { return stop_ || generation_ != done; });
    if (stop_) return;
    done = generation_;
    const auto* body = body_;
    lock.unlock();
    (*body)(index);
    lock.lock();
    if (--busy_ == 0) finish_.notify_one();
  }
}

}  // namespace lockstep
