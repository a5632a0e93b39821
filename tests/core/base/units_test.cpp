#include "core/base/units.hpp"

#include <limits>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("a time is rounded to the nearest picosecond, and ends at the longest there is",
          "[core][base]") {
  CHECK(to_sim_time(Seconds{1.4e-12}) == SimTime{1});
  CHECK(to_sim_time(Seconds{1.6e-12}) == SimTime{2});
  CHECK(to_sim_time(Seconds{-1.6e-12}) == SimTime{-2});
  const double infinity = std::numeric_limits<double>::infinity();
  for (const double long_ago : {1e7, 1e200, infinity}) {
    CHECK(to_sim_time(Seconds{long_ago}) == kLongestTime);
    CHECK(to_sim_time(Seconds{-long_ago}) == -kLongestTime);
  }
  CHECK(to_sim_time(Seconds{std::numeric_limits<double>::quiet_NaN()}) == kLongestTime);
  CHECK(to_sim_time(Seconds{1e6}) == SimTime{1'000'000'000'000'000'000});
}

TEST_CASE("a time that is repeated too often becomes the longest", "[core][base]") {
  CHECK(repeated(3, SimTime{5}) == SimTime{15});
  CHECK(repeated(0, kLongestTime) == SimTime{});
  CHECK(repeated(1, kLongestTime) == kLongestTime);
  CHECK(repeated(std::int64_t{1} << 40, SimTime{1 << 30}) == kLongestTime);
  CHECK(repeated(std::int64_t{1} << 62, SimTime{}) == SimTime{});
}

}  // namespace
}  // namespace lockstep
