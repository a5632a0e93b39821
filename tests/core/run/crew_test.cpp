#include "core/run/crew.hpp"

#include <atomic>
#include <set>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {

TEST_CASE("a crew runs every index once per call, each on a thread of its own", "[core][run]") {
  for (const std::size_t size : {1U, 2U, 5U}) {
    Crew crew(size);
    std::vector<int> calls(size, 0);
    std::vector<std::set<std::thread::id>> threads(size);
    for (int round = 0; round < 50; ++round) {
      crew.run([&](std::size_t i) {
        ++calls[i];
        threads[i].insert(std::this_thread::get_id());
      });
    }
    std::set<std::thread::id> all;
    for (std::size_t i = 0; i < size; ++i) {
      CHECK(calls[i] == 50);
      CHECK(threads[i].size() == 1);
      all.insert(threads[i].begin(), threads[i].end());
    }
    CHECK(all.size() == size);
  }
}

TEST_CASE("members of a crew run at the same time", "[core][run]") {
  Crew crew(3);
  std::atomic<int> arrived = 0;
  // Each waits for all others: this returns only if they overlap.
  crew.run([&](std::size_t) {
    arrived.fetch_add(1);
    while (arrived.load() < 3) std::this_thread::yield();
  });
  CHECK(arrived == 3);
}

}  // namespace lockstep
