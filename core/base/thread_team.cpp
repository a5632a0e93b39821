#include "core/base/thread_team.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <functional>
#include <thread>
#include <vector>

namespace lockstep {

struct ThreadTeam::State {
  int size = 1;
  std::vector<std::thread> workers;  // size - 1: members 1, 2, …; the caller is member 0
  std::atomic<std::uint32_t> generation{0};
  std::atomic<int> busy{0};
  bool stop = false;
  // The body that is running. It is written before `generation` changes and read after that.
  const std::function<void(int)>* body = nullptr;

  void work(int member) {
    std::uint32_t seen = 0;
    while (true) {
      generation.wait(seen, std::memory_order_acquire);
      ++seen;
      if (stop) return;
      (*body)(member);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }

  void publish() {
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
  }

  void end() {
    stop = true;
    publish();
    for (std::thread& worker : workers) worker.join();
  }
};

int num_cores() { return std::max(1, static_cast<int>(std::thread::hardware_concurrency())); }
int threads_or_cores(int asked) { return asked > 0 ? asked : num_cores(); }
int threads_for(std::size_t things) {
  constexpr std::size_t kWorthThreads = 100'000;
  if (things < kWorthThreads) return 1;
  return num_cores();
}

ThreadTeam::ThreadTeam(int members) : state_(std::make_unique<State>()) {
  state_->size = std::max(members, 1);
  try {
    for (int member = 1; member < state_->size; ++member) {
      state_->workers.emplace_back([state = state_.get(), member] { state->work(member); });
    }
  } catch (...) {  // the system has no more threads: those that it gave have to end first
    state_->end();
    throw;
  }
}

ThreadTeam::~ThreadTeam() { state_->end(); }

int ThreadTeam::size() const { return state_->size; }

void ThreadTeam::run(const std::function<void(int member)>& body) {
  State& state = *state_;
  if (state.size == 1) return body(0);
  state.body = &body;
  state.busy.store(state.size - 1, std::memory_order_relaxed);
  state.publish();
  body(0);
  for (int left = state.busy.load(std::memory_order_acquire); left != 0;
       left = state.busy.load(std::memory_order_acquire)) {
    state.busy.wait(left, std::memory_order_acquire);
  }
}

void ThreadTeam::parallel_for(std::int64_t n, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  assert(grain > 0);
  if (n <= 0) return;
  if (size() == 1 || n <= grain) {
    body(0, n);
    return;
  }
  // The loop is captured by one reference below, so that std::function allocates no memory.
  const auto part_of_loop = [this, n, grain, &body](int part) {
    const std::int64_t chunks = (n + grain - 1) / grain;
    const std::int64_t begin = std::min(n, chunks * part / size() * grain);
    const std::int64_t end = std::min(n, chunks * (part + 1) / size() * grain);
    if (begin < end) body(begin, end);
  };
  run(std::cref(part_of_loop));
}

void ThreadTeam::each(std::size_t count, const std::function<void(std::size_t)>& body) {
  std::atomic<std::size_t> next = 0;
  run([&](int) {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  });
}

}  // namespace lockstep
