#include "core/ir/verify/interval_map.hpp"

#include <algorithm>
#include <random>

#include "core/base/index_vector.hpp"
#include "tests/catch.hpp"

using namespace lockstep;

TEST_CASE("an interval map agrees with an array of bytes", "[core][ir]") {
  constexpr int kSize = 24;
  for (unsigned seed = 0; seed < 200; ++seed) {
    std::mt19937 random(seed);
    IntervalMap<int> map;
    IndexArray<int, int, kSize> bytes;  // -1: in no piece
    bytes.fill(-1);
    for (int step = 0; step < 60; ++step) {
      const int a = static_cast<int>(random() % (kSize + 1));
      const int b = static_cast<int>(random() % (kSize + 1));
      const int begin = std::min(a, b), end = std::max(a, b);
      if (random() % 2 == 0) {
        map.assign(begin, end, step);
        std::fill(bytes.begin() + begin, bytes.begin() + end, step);
      } else {
        map.update(begin, end, [](int& value) { value += 100; });
        for (int i = begin; i < end; ++i) {
          int& byte = bytes[i];
          byte = (byte < 0 ? 0 : byte) + 100;
        }
      }
      IndexArray<int, int, kSize> seen;
      seen.fill(-1);
      std::int64_t at = 0;
      map.visit(0, kSize, [&](std::int64_t from, std::int64_t to, int value) {
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
}
