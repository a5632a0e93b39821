#include "core/analysis/intervals.hpp"

#include <random>
#include <vector>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

Interval i(int begin, int end) { return {SimTime{begin}, SimTime{end}}; }

TEST_CASE("a union merges what overlaps or touches and drops what is empty", "[core][analysis]") {
  CHECK(union_of({i(5, 7), i(0, 2), i(1, 3), i(3, 4), i(6, 6)}) == IntervalSet{i(0, 4), i(5, 7)});
  CHECK(union_of({i(0, 10), i(2, 3)}) == IntervalSet{i(0, 10)});
  CHECK(union_of({}).empty());
}

TEST_CASE("a difference keeps the parts outside every hole", "[core][analysis]") {
  CHECK(difference({i(0, 10)}, {i(2, 3), i(5, 7)}) == IntervalSet{i(0, 2), i(3, 5), i(7, 10)});
  CHECK(difference({i(0, 4), i(6, 8)}, {i(3, 7)}) == IntervalSet{i(0, 3), i(7, 8)});
  CHECK(difference({i(0, 4)}, {i(0, 4)}).empty());
}

TEST_CASE("set operations on intervals agree with sets of points", "[core][analysis]") {
  constexpr int kPoints = 40;
  std::mt19937 random(7);
  const auto draw = [&] {
    std::vector<Interval> list(random() % 8);
    for (Interval& x : list) {
      const int a = static_cast<int>(random() % kPoints), b = static_cast<int>(random() % kPoints);
      x = i(std::min(a, b), std::max(a, b));
    }
    return list;
  };
  const auto points = [](const std::vector<Interval>& list) {
    std::vector<bool> in(kPoints, false);
    for (const Interval& x : list) {
      for (auto t = x.begin.count(); t < x.end.count(); ++t) in[t] = true;
    }
    return in;
  };
  for (int round = 0; round < 2000; ++round) {
    const auto list_a = draw(), list_b = draw();
    const IntervalSet a = union_of(list_a), b = union_of(list_b);
    const auto in_a = points(list_a), in_b = points(list_b);
    REQUIRE(points(a) == in_a);
    const auto minus = points(difference(a, b)), both = points(intersection(a, b));
    for (std::size_t p = 0; p < kPoints; ++p) {
      REQUIRE(minus[p] == (in_a[p] && !in_b[p]));
      REQUIRE(both[p] == (in_a[p] && in_b[p]));
    }
    REQUIRE(length(difference(a, b)) + length(intersection(a, b)) == length(a));
  }
}

}  // namespace
}  // namespace lockstep
