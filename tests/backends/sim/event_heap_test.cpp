#include "backends/sim/event_heap.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

using sim::EventHeap;
using sim::SimEvent;

bool same(const SimEvent& a, const SimEvent& b) { return a.time == b.time && a.rest == b.rest; }

TEST_CASE("events leave the heap in order of time and key, whenever they entered it",
          "[backends][sim]") {
  std::mt19937 random(5);
  const auto pick = [&](std::uint32_t most) {
    return std::uniform_int_distribution<std::uint32_t>(0, most)(random);
  };
  EventHeap heap;
  for (int trial = 0; trial < 20; ++trial) {
    std::vector<SimEvent> inside;
    for (int change = 0; change < 2000; ++change) {
      if (inside.empty() || pick(99) < 55) {
        inside.emplace_back(pick(50), pick(1) == 0 ? ~0u : pick(9), pick(3));
        heap.push(inside.back());
      } else {
        const auto least = std::min_element(inside.begin(), inside.end());
        REQUIRE(same(heap.pop(), *least));
        inside.erase(least);
      }
      REQUIRE(heap.size() == inside.size());
      REQUIRE(heap.empty() == inside.empty());
    }
    if (trial % 2 == 0) heap.clear();  // and the next trial finds nothing of this one
    while (!heap.empty()) heap.pop();
  }
}

}  // namespace
}  // namespace lockstep
