#include "core/base/sorted_chunks.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "tests/catch.hpp"

using namespace lockstep;

namespace {

std::vector<int> all(const SortedChunks<int>& chunks) {
  std::vector<int> elements;
  auto at = chunks.find([](int) { return false; });
  for (; chunks.valid(at); at = chunks.next(at)) elements.push_back(chunks[at]);
  return elements;
}

}  // namespace

TEST_CASE("chunks of sorted numbers agree with a sorted vector while it grows and shrinks",
          "[core][base]") {
  std::mt19937 random(1);
  SortedChunks<int> chunks;
  std::vector<int> sorted;
  for (int step = 0; step < 3000; ++step) {
    const bool grows = step / 500 % 2 == 0;  // to several hundred, and to none again
    const int value = static_cast<int>(random() % 10000);
    const auto before = [value](int element) { return element < value; };
    const auto place = std::lower_bound(sorted.begin(), sorted.end(), value);
    auto at = chunks.find(before);
    REQUIRE(chunks.valid(at) == (place != sorted.end()));
    if (grows || sorted.empty()) {
      at = chunks.insert(at, value);
      REQUIRE(chunks[at] == value);
      sorted.insert(place, value);
    } else if (place != sorted.end()) {
      REQUIRE(chunks[at] == *place);
      at = chunks.remove(at);
      const auto next = sorted.erase(place);
      REQUIRE(chunks.valid(at) == (next != sorted.end()));
      if (next != sorted.end()) REQUIRE(chunks[at] == *next);
    }
    if (step % 50 == 0) REQUIRE(all(chunks) == sorted);
  }
  chunks.clear();
  CHECK(all(chunks).empty());
  chunks.insert(chunks.find([](int) { return true; }), 7);
  CHECK(all(chunks) == std::vector<int>{7});
}
