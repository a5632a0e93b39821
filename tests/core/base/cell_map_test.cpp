#include "core/base/cell_map.hpp"

#include <algorithm>
#include <cstddef>
#include <random>
#include <vector>

#include "core/base/index_vector.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// Visits a map and an array of `size` bytes alike, and compares what they held.
void compare_with_bytes(unsigned seed, int size, int longest, std::size_t ranges) {
  std::mt19937 random(seed);
  CellMap<int> map(size, ranges);
  IndexVector<int, int> bytes(size, 0);
  IndexVector<int, bool> cuts(size + 1, false);
  for (int step = 1; step <= 80; ++step) {
    const int begin = static_cast<int>(random() % static_cast<unsigned>(size + 1));
    const int end =
        std::min(size, begin + static_cast<int>(random() % static_cast<unsigned>(longest + 1)));
    if (begin < end) cuts[begin] = cuts[end] = true;
    std::vector<int> expected, found;
    for (int at = begin; at < end; ++at) {
      if (at == begin || cuts[at]) expected.push_back(bytes[at]);
      bytes[at] = step;
    }
    map.visit(begin, end, [&](int& value) {
      found.push_back(value);
      value = step;
    });
    REQUIRE(found == expected);
  }
}

}  // namespace

TEST_CASE("a cell map agrees with an array of bytes that is cut where ranges end", "[core][base]") {
  for (unsigned seed = 0; seed < 200; ++seed) {
    compare_with_bytes(seed, 40, 40, seed % 70);
    compare_with_bytes(seed, 1000, 30, 100);
  }
}

TEST_CASE("a cell map of a line without bytes has nothing to visit", "[core][base]") {
  CellMap<int> map(0, 0);
  map.visit(0, 0, [](int&) { FAIL("there is no cell"); });
}

TEST_CASE("cells of a long line are found wherever its ranges are", "[core][base]") {
  constexpr std::int64_t kLength = std::int64_t{1} << 50;
  CellMap<int> map(kLength, 4);
  const auto put = [&](std::int64_t begin, std::int64_t end, int put) {
    std::vector<int> found;
    map.visit(begin, end, [&](int& value) {
      found.push_back(value);
      value = put;
    });
    return found;
  };
  CHECK(put(kLength - 1, kLength, 1) == std::vector{0});
  CHECK(put(0, 1, 2) == std::vector{0});
  CHECK(put(0, kLength, 3) == std::vector{2, 0, 1});
  CHECK(put(kLength / 2, kLength - 1, 4) == std::vector{3});
  CHECK(put(1, kLength - 1, 5) == std::vector{3, 4});
}
