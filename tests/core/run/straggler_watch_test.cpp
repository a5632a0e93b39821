#include "core/run/straggler_watch.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

OpTime time(int begin, int active, int end) {
  return {OpId{0}, SimTime{begin}, SimTime{active}, SimTime{end}};
}

}  // namespace

TEST_CASE("a rank waits while nothing works and some transfer's peers are not there",
          "[core][run]") {
  const auto waiting = [](const std::vector<OpTime>& times) {
    return std::llround(time_waiting(times).v * 1e12);
  };
  CHECK(waiting({}) == 0);
  CHECK(waiting({time(0, 0, 10)}) == 0);
  CHECK(waiting({time(0, 7, 10)}) == 7);
  CHECK(waiting({time(0, 7, 10), time(0, 5, 20)}) == 5);   // two transfers wait together
  CHECK(waiting({time(0, 10, 12), time(2, 2, 6)}) == 6);   // 0 to 2 and 6 to 10
  CHECK(waiting({time(0, 0, 20), time(3, 15, 18)}) == 0);  // behind computation
  CHECK(waiting({time(0, 4, 5), time(8, 9, 10)}) == 4 + 1);
}

TEST_CASE("the rank for which the others wait is named once, and taken back", "[core][run]") {
  StragglerWatch stragglers;
  const auto window = [&](const std::vector<double>& waiting) {
    std::string said;
    for (int i = 0; i < StragglerWatch::kWindow; ++i) {
      std::vector<Seconds> seconds;
      for (const double w : waiting) seconds.push_back({w});
      said += stragglers.add({1}, seconds);
    }
    return said;
  };
  CHECK(window({0.10, 0.11, 0.12}).empty());  // all wait alike, as in a pipeline's bubble
  CHECK_FALSE(stragglers.waits().straggler);
  CHECK(window({0.30, 0.02, 0.32, 0.28}) ==
        "rank 1 is a straggler: in the last 16 steps it waited 2 % of the time for others, they "
        "30 %");
  CHECK(stragglers.waits().straggler == 1);
  CHECK(std::abs(stragglers.waits().mean.v - 0.23) < 1e-12);
  CHECK(window({0.30, 0.02, 0.32, 0.28}).empty());
  CHECK_THAT(window({0.02, 0.30, 0.32, 0.28}), ContainsSubstring("rank 0 is a straggler"));
  CHECK(window({0.1, 0.1, 0.1, 0.1}) == "no rank is a straggler any more");
  CHECK_FALSE(stragglers.waits().straggler);
  StragglerWatch alone;  // a single rank waits for nobody
  for (int i = 0; i < 100; ++i) CHECK(alone.add({1}, {{0.5}}).empty());
}

}  // namespace lockstep
