#include "backends/cpu/kernels/thread_team.hpp"

#include <algorithm>
#include <atomic>
#include <cassert>
#include <thread>
#include <vector>

namespace lockstep::cpu {

struct ThreadTeam::State {
  int size = 1;
  std::vector<std::thread> workers;  // size - 1; worker t computes part t, the caller part 0
  std::atomic<std::uint32_t> generation{0};
  std::atomic<int> busy{0};
  bool stop = false;
  // The loop under way; written before `generation` moves, read after.
  std::int64_t n = 0, grain = 1;
  const std::function<void(std::int64_t, std::int64_t)>* body = nullptr;

  void run_part(int part) const {
    const std::int64_t chunks = (n + grain - 1) / grain;
    const std::int64_t begin = std::min(n, chunks * part / size * grain);
    const std::int64_t end = std::min(n, chunks * (part + 1) / size * grain);
    if (begin < end) (*body)(begin, end);
  }

  void work(int part) {
    std::uint32_t seen = 0;
    while (true) {
      generation.wait(seen, std::memory_order_acquire);
      ++seen;
      if (stop) return;
      run_part(part);
      if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) busy.notify_one();
    }
  }

  void publish() {
    generation.fetch_add(1, std::memory_order_release);
    generation.notify_all();
  }
};

ThreadTeam::ThreadTeam(int threads) : state_(std::make_unique<State>()) {
  state_->size = std::max(threads, 1);
  for (int part = 1; part < state_->size; ++part) {
    state_->workers.emplace_back([state = state_.get(), part] { state->work(part); });
  }
}

ThreadTeam::~ThreadTeam() {
  state_->stop = true;
  state_->publish();
  for (std::thread& worker : state_->workers) worker.join();
}

int ThreadTeam::size() const { return state_->size; }

void ThreadTeam::parallel_for(std::int64_t n, std::int64_t grain,
                              const std::function<void(std::int64_t, std::int64_t)>& body) {
  assert(grain > 0);
  if (n <= 0) return;
  State& state = *state_;
  if (state.size == 1 || n <= grain) {
    body(0, n);
    return;
  }
  state.n = n;
  state.grain = grain;
  state.body = &body;
  state.busy.store(state.size - 1, std::memory_order_relaxed);
  state.publish();
  state.run_part(0);
  for (int left = state.busy.load(std::memory_order_acquire); left != 0;
       left = state.busy.load(std::memory_order_acquire)) {
    state.busy.wait(left, std::memory_order_acquire);
  }
}

}  // namespace lockstep::cpu
