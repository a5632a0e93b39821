#include "core/base/float16.hpp"

#include <cmath>
#include <limits>

#include "tests/catch.hpp"

namespace lockstep {
namespace {

/// The value of a binary16 by IEEE 754's definition.
double defined(std::uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const double sign = bits >> 15 != 0 ? -1 : 1;
  if (exponent == 31) return fraction == 0 ? sign * INFINITY : NAN;
  if (exponent == 0) return sign * std::ldexp(fraction, -24);
  return sign * std::ldexp(1024 + fraction, exponent - 25);
}

TEST_CASE("every float16 has the value that its bits define, and rounds to itself",
          "[core][base]") {
  for (int i = 0; i < 65536; ++i) {
    const auto bits = static_cast<std::uint16_t>(i);
    const float value = float16_value(bits);
    const double expected = defined(bits);
    INFO(i);
    if (std::isnan(expected)) {
      REQUIRE(std::isnan(value));
      REQUIRE(std::isnan(float16_value(float16_bits(value))));
      continue;
    }
    REQUIRE(static_cast<double>(value) == expected);
    REQUIRE(std::signbit(value) == (bits >> 15 != 0));
    REQUIRE(float16_bits(value) == bits);
  }
}

TEST_CASE("numbers between two float16 go to the nearer one, halves to the even one",
          "[core][base]") {
  for (int i = 0; i < 0x7bff; ++i) {  // all pairs of neighbours that are finite and not negative
    const auto low = static_cast<std::uint16_t>(i), high = static_cast<std::uint16_t>(i + 1);
    const float half = (float16_value(low) + float16_value(high)) / 2;  // exact in float32
    INFO(i);
    REQUIRE(float16_bits(half) == (i % 2 == 0 ? low : high));
    REQUIRE(float16_bits(std::nextafter(half, 0.0F)) == low);
    REQUIRE(float16_bits(std::nextafter(half, 1e9F)) == high);
    REQUIRE(float16_bits(-half) == (0x8000 | (i % 2 == 0 ? low : high)));
  }
  CHECK(std::isfinite(static_cast<float>(float16(65519.99F))));
  CHECK(std::isinf(static_cast<float>(float16(65520.0F))));
  CHECK(std::isinf(static_cast<float>(float16(std::numeric_limits<float>::max()))));
}

}  // namespace
}  // namespace lockstep
