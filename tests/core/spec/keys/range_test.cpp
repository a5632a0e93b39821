#include "core/spec/keys/range.hpp"

#include <cmath>
#include <limits>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

TEST_CASE("a range has the numbers that its text says", "[core][spec]") {
  constexpr Range kShare = "[0, 1)", kCounted = "-1 or >= 1", kBits = "4 or 8", kPositive = "> 0";
  CHECK((kShare.has(0) && kShare.has(0.999) && !kShare.has(1) && !kShare.has(-1e-300)));
  CHECK((kCounted.has(-1) && kCounted.has(1) && kCounted.has(kInfinite) && !kCounted.has(0) &&
         !kCounted.has(-2)));
  CHECK((kBits.has(4) && kBits.has(8) && !kBits.has(5)));
  CHECK((kPositive.has(1e-300) && !kPositive.has(0)));
  constexpr Range kOpen = "(0, 1.25]";
  CHECK((kOpen.has(1.25) && !kOpen.has(0) && !kOpen.has(1.2500001)));
}

TEST_CASE("no range but that of any number has NaN", "[core][spec]") {
  CHECK_FALSE(Range(">= 0").has(std::nan("")));
  CHECK_FALSE(Range("0 or [1, 2]").has(std::nan("")));
  CHECK(Range().has(std::nan("")));
}

TEST_CASE("a range is a rule that goes on behind a key", "[core][spec]") {
  CHECK(Range("> 0").rule() == "must be positive");
  CHECK(Range(">= 0").rule() == "must not be negative");
  CHECK(Range(">= 2").rule() == "must be at least 2");
  CHECK(Range("0 or >= 2").rule() == "must be 0 or at least 2");
  CHECK(Range("[0, 1)").rule() == "must be in [0, 1)");
  CHECK(Range("0 or [1, 9]").rule() == "must be 0 or [1, 9]");
}

}  // namespace
}  // namespace lockstep
