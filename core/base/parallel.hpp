// parallel_for: runs independent pieces of work on a few threads.
#pragma once

#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace lockstep {

/// Calls body(i) once for every i in [0, count) on `threads` threads, of which the caller's is one;
/// returns when all calls have returned. The calls begin in the order of i, but several run at
/// once.
template <class Body>
void parallel_for(std::size_t count, int threads, const Body& body) {
  std::atomic<std::size_t> next = 0;
  const auto work = [&] {
    for (std::size_t i = next++; i < count; i = next++) body(i);
  };
  std::vector<std::thread> others;
  for (int t = 1; t < threads; ++t) others.emplace_back(work);
  work();
  for (std::thread& thread : others) thread.join();
}

}  // namespace lockstep
