#include "core/base/interval_map.hpp"

#include <algorithm>
#include <random>
#include <vector>

#include "core/base/index_vector.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

namespace {

/// Changes a map and an array of `size` bytes alike, in ranges of at most `longest` bytes.
void compare_with_bytes(unsigned seed, int size, int longest, int steps) {
  std::mt19937 random(seed);
  IntervalMap<int> map;
  IndexVector<int, int> bytes(size, -1);  // -1: in no piece
  for (int step = 0; step < steps; ++step) {
    const int begin = static_cast<int>(random() % static_cast<unsigned>(size + 1));
    const int end =
        std::min(size, begin + static_cast<int>(random() % static_cast<unsigned>(longest + 1)));
    if (step % 200 == 199) {
      map.clear();
      bytes.assign(size, -1);
    } else if (random() % 2 == 0) {
      std::vector<int> touched, replaced;
      map.visit(begin, end,
                [&](std::int64_t, std::int64_t, int value) { touched.push_back(value); });
      if (begin < end) {
        map.one_piece(begin, end, [&](int value) { replaced.push_back(value); }) = step;
      }
      REQUIRE(replaced == touched);
      std::fill(bytes.begin() + begin, bytes.begin() + end, step);
    } else {
      map.update(begin, end, [](int& value) { value += 100; });
      for (int i = begin; i < end; ++i) {
        int& byte = bytes[i];
        byte = (byte < 0 ? 0 : byte) + 100;
      }
    }
    IndexVector<int, int> seen(size, -1);
    std::int64_t at = 0;
    map.visit(0, size, [&](std::int64_t from, std::int64_t to, int value) {
      REQUIRE(from >= at);
      REQUIRE(from < to);
      at = to;
      std::fill(seen.begin() + from, seen.begin() + to, value);
    });
    REQUIRE(seen == bytes);
    const bool covered =
        std::find(bytes.begin() + begin, bytes.begin() + end, -1) == bytes.begin() + end;
    REQUIRE(map.covers(begin, end) == covered);
  }
}

}  // namespace

TEST_CASE("an interval map agrees with an array of bytes", "[core][base]") {
  for (unsigned seed = 0; seed < 200; ++seed) compare_with_bytes(seed, 24, 24, 60);
}

TEST_CASE("an interval map of hundreds of pieces agrees with an array of bytes", "[core][base]") {
  for (unsigned seed = 0; seed < 6; ++seed) compare_with_bytes(seed, 1500, 5, 1000);
  compare_with_bytes(6, 1500, 200, 400);
}
