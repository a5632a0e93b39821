#include "core/spec/keys/units.hpp"

#include "tests/catch.hpp"

namespace lockstep {
namespace {

TEST_CASE("human units become SI by their definitions", "[core][scenario]") {
  CHECK(to_si(UnitPrefix::Giga, 1.5) == 1.5e9);
  CHECK(to_si(UnitPrefix::Tera, 312) == 3.12e14);
  CHECK(to_si(UnitPrefix::Mebi, 25) == 26214400.0);
  CHECK(to_si(UnitPrefix::Micro, 3.4) == 3.4e-6);
  CHECK(to_si(UnitPrefix::One, 0.1) == 0.1);
}

TEST_CASE("a number read in any unit is found again", "[core][scenario]") {
  for (const UnitPrefix prefix :
       {UnitPrefix::One, UnitPrefix::Giga, UnitPrefix::Tera, UnitPrefix::Mebi, UnitPrefix::Micro}) {
    double x = 1e-7;
    for (int i = 0; i < 20000; ++i) {
      x *= 1.00137;  // to about 1e5, all mantissas
      const double si = to_si(prefix, x);
      REQUIRE(to_si(prefix, from_si(prefix, si)) == si);
    }
  }
}

}  // namespace
}  // namespace lockstep
